package org.example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source of a file's lines whose poll waits until there is one, as those of queues do. */
public class WaitingSourceConnector extends SourceConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "the file")
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "the topic");
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Waiting.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(config);
    }

    @Override
    public void start(Map<String, String> given) {
        config = given;
    }

    @Override
    public void stop() {}

    /** Never returns without a record. */
    public static class Waiting extends SourceTask {
        private Map<String, String> config;
        private long line;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> given) {
            config = given;
            Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("file", config.get("file")));
            line = offset == null ? 0 : (Long) offset.get("line");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            while (true) {
                try {
                    List<String> lines = Files.readAllLines(Path.of(config.get("file")));
                    if (lines.size() > line) {
                        String text = lines.get((int) line++);
                        Map<String, Object> offset = Map.of("line", line);
                        return List.of(new SourceRecord(
                            Map.of("file", config.get("file")), offset, config.get("topic"), Schema.STRING_SCHEMA, text));
                    }
                } catch (IOException failed) {
                    throw new ConnectException("the file cannot be read", failed);
                }
                Thread.sleep(50);
            }
        }

        @Override
        public void stop() {}
    }
}
