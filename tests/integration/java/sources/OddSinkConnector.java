package org.example;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink that is out of order: in its validation or in put, whichever "where" names, it does what "does" names. */
public class OddSinkConnector extends SinkConnector {
    static void fail(Map<String, String> config, String where) {
        if (!where.equals(config.get("where"))) return;
        switch (config.get("does")) {
            case "exit" -> System.exit(3);
            case "miss" -> throw new NoClassDefFoundError("some/Missing");
            case "talk" -> throw new IllegalStateException("begin " + "x".repeat(50_000_000) + " end");
        }
    }

    public static class OddTask extends SinkTask {
        private Map<String, String> config;

        @Override
        public void start(Map<String, String> given) {
            config = given;
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (!records.isEmpty()) fail(config, "put");
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1.0";
        }
    }

    private Map<String, String> config;

    @Override
    public Config validate(Map<String, String> given) {
        fail(given, "validate");
        return super.validate(given);
    }

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public Class<? extends Task> taskClass() {
        return OddTask.class;
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
}
