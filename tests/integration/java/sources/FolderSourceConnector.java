package org.example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A task for each file of a folder. A thread of the connector asks for other tasks when there are other files. A file "fail" is
 * an error, a file "exit" ends the JVM, and while there is a file "hang", the connector does not name its tasks. A file
 * "interrupt-empty" or "interrupt-full" interrupts the next poll without or with records, and is removed. */
public class FolderSourceConnector extends SourceConnector {
    private volatile boolean running;
    private volatile List<String> files;
    private Map<String, String> config;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("folder", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "the folder")
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "the topic");
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Lines.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        while (has("hang")) {
            try {
                Thread.sleep(50);
            } catch (InterruptedException ended) {
                throw new ConnectException(ended);
            }
        }
        return files.stream().map(file -> Map.of("topic", config.get("topic"), "file", file)).toList();
    }

    @Override
    public void start(Map<String, String> given) {
        config = given;
        files = list();
        running = true;
        Thread watch = new Thread(this::watch, "watch");
        watch.setDaemon(true);
        watch.start();
    }

    @Override
    public void stop() {
        running = false;
    }

    private List<String> list() {
        try (Stream<Path> found = Files.list(Path.of(config.get("folder")))) {
            return found.map(Path::toString).filter(file -> file.endsWith(".txt")).sorted().toList();
        } catch (IOException failed) {
            throw new ConnectException("the folder cannot be listed", failed);
        }
    }

    private boolean has(String file) {
        return Files.exists(Path.of(config.get("folder"), file));
    }

    private void watch() {
        while (running) {
            if (has("exit")) {
                System.exit(7);
            }
            if (has("fail")) {
                context.raiseError(new ConnectException("the folder is out of order: " + config.get("topic.password")));
                return;
            }
            List<String> found = list();
            if (!found.equals(files)) {
                files = found;
                context.requestTaskReconfiguration();
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }

    /** The lines of one file, fifty in a poll. */
    public static class Lines extends SourceTask {
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
            List<SourceRecord> records = new ArrayList<>();
            try {
                List<String> lines = Files.readAllLines(Path.of(config.get("file")));
                while (line < lines.size() && records.size() < 50) {
                    String text = lines.get((int) line++);
                    Map<String, Object> offset = Map.of("line", line);
                    records.add(new SourceRecord(
                        Map.of("file", config.get("file")), offset, config.get("topic"), Schema.STRING_SCHEMA, text));
                }
            } catch (IOException failed) {
                throw new ConnectException("the file cannot be read", failed);
            }
            String interrupt = records.isEmpty() ? "interrupt-empty" : "interrupt-full";
            if (Path.of(config.get("file")).resolveSibling(interrupt).toFile().delete()) {
                Thread.currentThread().interrupt();
            }
            if (records.isEmpty()) {
                Thread.sleep(20);
            }
            return records;
        }

        @Override
        public void stop() {}
    }
}
