import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Apache Kafka's own answers about settings. A line of input is a JSON array of cases, {"of": "topic" or "broker", "settings": {name: value}}.
 * For each line it prints one object, whose "answers" are, a case each, {"refused": sentence} or {"values": {name: the value as parsed}}.
 * Topic settings are checked as a controller checks them, broker settings as a broker does at its start, its defaults of topics included.
 */
public class KafkaSettings {
    record Case(String of, Map<String, String> settings) {
    }

    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<Map<String, Object>> answers = new ArrayList<>();
            for (Case one : JSON.readValue(line, Case[].class)) {
                answers.add(answer(one.of(), one.settings()));
            }
            System.out.println(JSON.writeValueAsString(Map.of("event", "answered", "answers", answers)));
        }
    }

    private static Map<String, Object> answer(String of, Map<String, String> settings) {
        Map<String, Object> values = new TreeMap<>();
        try {
            Map<String, ?> parsed = of.equals("topic") ? topic(settings) : broker(settings);
            for (String name : settings.keySet()) {
                Object value = parsed.get(name);
                values.put(name, value instanceof Double ? value.toString() : value instanceof Password hidden ? hidden.value() : value);
            }
        } catch (RuntimeException refused) {
            return Map.of("refused", String.valueOf(refused.getMessage()));
        }
        return Map.of("values", values);
    }

    private static Map<String, ?> topic(Map<String, String> settings) {
        LogConfig.validate(settings);
        return LogConfig.configDefCopy().parse(settings);
    }

    private static Map<String, ?> broker(Map<String, String> settings) {
        Properties properties = new Properties();
        // The name of the controller's listener is one that the default of listener.security.protocol.map has.
        properties.putAll(Map.of(
            "process.roles", "broker",
            "node.id", "1",
            "controller.listener.names", "SSL",
            "listeners", "PLAINTEXT://127.0.0.1:9092",
            "controller.quorum.bootstrap.servers", "127.0.0.1:9093",
            "log.dirs", "/nowhere"));
        properties.putAll(settings);
        KafkaConfig config = new KafkaConfig(properties, false);
        LogConfig defaults = new LogConfig(config.extractLogConfigMap());
        LogConfig.validateBrokerLogConfigValues(defaults.values(), false);
        return config.values();
    }
}
