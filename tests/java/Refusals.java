import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What the Java client says where a broker lacks a feature; arguments: bootstrap servers, feature. Prints one JSON object. */
public class Refusals {
    private static final Duration LONG = Duration.ofSeconds(60);

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", "java-" + arguments[1]);
        String error = "none";
        long began = System.nanoTime();
        try {
            use(arguments[1], settings);
        } catch (Exception raised) {
            error = raised.toString();
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        String text = error.replace("\"", "'").replace("\n", " ");
        System.out.println("{\"event\": \"raised\", \"seconds\": " + seconds + ", \"error\": \"" + text + "\"}");
        System.exit(0);
    }

    private static void use(String feature, Properties settings) {
        if (feature.equals("transactions")) {
            settings.put("transactional.id", "t");
            settings.put("max.block.ms", "60000");
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()).initTransactions();
            return;
        }
        settings.put("group.id", "g");
        settings.put("group.protocol", "consumer");
        var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of("t"));
        consumer.poll(LONG);
    }
}
