package org.example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink that keeps offsets itself: it notes in a file those that it is asked to change, and takes none above 100. */
public class KeepingSinkConnector extends SinkConnector {
    @Override
    public boolean alterOffsets(Map<String, String> config, Map<TopicPartition, Long> offsets) {
        if (Thread.currentThread().getContextClassLoader() != getClass().getClassLoader())
            throw new IllegalStateException("the thread's class loader is not the plugin's");
        Map<String, String> noted = new TreeMap<>();
        for (Map.Entry<TopicPartition, Long> each : offsets.entrySet()) {
            Long offset = each.getValue();
            if (offset != null && offset > 100)
                throw new ConnectException("offset " + offset + " of " + each.getKey() + " is beyond 100");
            noted.put(each.getKey().toString(), String.valueOf(offset));
        }
        try {
            Files.writeString(Path.of(config.get("file")), noted + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException failed) {
            throw new ConnectException("the file cannot be written", failed);
        }
        return true;
    }

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "where offsets are noted");
    }

    @Override
    public Class<? extends Task> taskClass() {
        return SinkTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(Map.of());
    }

    @Override
    public void start(Map<String, String> config) {}

    @Override
    public void stop() {}
}
