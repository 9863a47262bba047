import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Six transactions of a Java producer, every second one aborted; arguments: bootstrap servers, topic, transactional id. Prints one JSON object. */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[2]);
        settings.put("max.block.ms", "60000");
        var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        for (int number = 0; number < 6; number++) {
            producer.beginTransaction();
            for (int copy = 0; copy < 3; copy++) {
                producer.send(new ProducerRecord<>(arguments[1], 0, null, ("" + number).getBytes()));
            }
            if (number % 2 == 0) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
        producer.close();
        System.out.println("{\"event\": \"done\"}");
        System.exit(0);
    }
}
