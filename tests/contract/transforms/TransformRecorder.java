// What Kafka Connect's own transformations and predicates make of cases: one JSON document a line in, one answer a line out.
// Run by record.py:  java -Duser.timezone=UTC -cp 'JARS/*' TransformRecorder.java < cases > answers

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.rest.entities.ConfigKeyInfo;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

public class TransformRecorder {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonConverter WITH_SCHEMA = converter(true);
    static final JsonConverter WITHOUT_SCHEMA = converter(false);

    static JsonConverter converter(boolean schemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", schemas, "replace.null.with.default", false), false);
        return made;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        out.flush();
    }

    static JsonNode answer(JsonNode row) throws Exception {
        Object plugin = Class.forName("org.apache.kafka.connect.transforms." + row.get("class").asText())
            .getDeclaredConstructor().newInstance();
        ConfigDef definition = plugin instanceof Predicate ? ((Predicate<?>) plugin).config() : ((Transformation<?>) plugin).config();
        if (row.has("definition")) {
            return JSON.valueToTree(definition.configKeys().values().stream().map(AbstractHerder::convertConfigKey).toList());
        }
        Map<String, String> config = new LinkedHashMap<>();
        row.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        if (row.has("validate")) {
            return validation(definition, config);
        }
        try {
            if (plugin instanceof Predicate) {
                ((Predicate<?>) plugin).configure(config);
            } else {
                ((Transformation<?>) plugin).configure(config);
            }
        } catch (Exception error) {
            return told("refused", error);
        }
        return row.get("kind").asText().equals("sink") ? applied(plugin, sinkRecord(row)) : applied(plugin, sourceRecord(row));
    }

    static JsonNode validation(ConfigDef definition, Map<String, String> config) {
        ObjectNode errors = JSON.createObjectNode();
        try {
            for (ConfigValue value : definition.validate(config)) {
                if (!value.errorMessages().isEmpty()) {
                    errors.set(value.name(), JSON.valueToTree(value.errorMessages()));
                }
            }
        } catch (Exception error) {
            return told("refused", error);
        }
        return JSON.createObjectNode().set("errors", errors);
    }

    @SuppressWarnings("unchecked")
    static <R extends ConnectRecord<R>> JsonNode applied(Object plugin, R record) {
        try {
            if (plugin instanceof Predicate) {
                return JSON.createObjectNode().put("true", ((Predicate<R>) plugin).test(record));
            }
            R after = ((Transformation<R>) plugin).apply(record);
            return after == null ? JSON.createObjectNode().put("dropped", true) : described(after);
        } catch (Exception error) {
            return told("failed", error);
        }
    }

    static SourceRecord sourceRecord(JsonNode row) throws Exception {
        SchemaAndValue key = read(row.get("key"));
        SchemaAndValue value = read(row.get("value"));
        SourceRecord record = new SourceRecord(Map.of("file", "a"), Map.of("position", 1), row.get("topic").asText(), integer(row),
            key.schema(), key.value(), value.schema(), value.value(), timestamp(row));
        row.get("headers").forEach(pair -> record.headers().addString(pair.get(0).asText(), pair.get(1).asText()));
        return record;
    }

    static SinkRecord sinkRecord(JsonNode row) throws Exception {
        SchemaAndValue key = read(row.get("key"));
        SchemaAndValue value = read(row.get("value"));
        SinkRecord record = new SinkRecord(row.get("topic").asText(), integer(row), key.schema(), key.value(), value.schema(),
            value.value(), row.get("offset").asLong(), timestamp(row), TimestampType.CREATE_TIME);
        row.get("headers").forEach(pair -> record.headers().addString(pair.get(0).asText(), pair.get(1).asText()));
        return record;
    }

    static Integer integer(JsonNode row) {
        return row.get("partition").isNull() ? null : Integer.valueOf(row.get("partition").asInt());
    }

    static Long timestamp(JsonNode row) {
        return row.get("timestamp").isNull() ? null : Long.valueOf(row.get("timestamp").asLong());
    }

    static SchemaAndValue read(JsonNode side) throws Exception {
        if (side.isNull()) {
            return SchemaAndValue.NULL;
        }
        if (side.has("schema")) {
            return WITH_SCHEMA.toConnectData("t", JSON.writeValueAsBytes(side));
        }
        return WITHOUT_SCHEMA.toConnectData("t", JSON.writeValueAsBytes(side.get("payload")));
    }

    static JsonNode described(ConnectRecord<?> record) {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("topic", record.topic());
        answer.put("partition", record.kafkaPartition());
        answer.put("timestamp", record.timestamp());
        answer.set("key", written(record.keySchema(), record.key()));
        answer.set("value", written(record.valueSchema(), record.value()));
        ArrayNode headers = answer.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(written(header.schema(), header.value()));
        }
        return answer;
    }

    static JsonNode written(Schema schema, Object value) {
        try {
            if (schema == null && value == null) {
                return JSON.nullNode();
            }
            if (schema == null) {
                return JSON.createObjectNode().set("payload", JSON.readTree(WITHOUT_SCHEMA.fromConnectData("t", null, value)));
            }
            return JSON.readTree(WITH_SCHEMA.fromConnectData("t", schema, value));
        } catch (Exception error) {
            return told("unwritable", error);
        }
    }

    static JsonNode told(String what, Exception error) {
        return JSON.createObjectNode().put(what, error.getClass().getSimpleName()).put("message", error.getMessage());
    }
}
