// Runs Apache Kafka's own command-line tools in one JVM: one command line a line of standard input, the class of the tool and its arguments between tabs.
// For each it answers three lines in base64: the exit status, standard output, standard error.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    private static final int SECONDS_MAX = 120;

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            byte[] status = String.valueOf(run(line.split("\t", -1))).getBytes(StandardCharsets.UTF_8);
            for (byte[] part : List.of(status, out.toByteArray(), err.toByteArray())) {
                answers.println(Base64.getEncoder().encodeToString(part));
            }
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    // The tool ends its process where it finds a mistake, so each run has a thread that can stop there for good.
    private static int run(String[] line) throws Exception {
        CompletableFuture<Integer> status = new CompletableFuture<>();
        Exit.setExitProcedure((code, message) -> {
            status.complete(code);
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        });
        Thread runner = new Thread(() -> {
            try {
                String[] arguments = Arrays.copyOfRange(line, 1, line.length);
                Class.forName(line[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
                status.complete(0);
            } catch (InvocationTargetException error) {
                error.getCause().printStackTrace();
                status.complete(1);
            } catch (Throwable error) {
                error.printStackTrace();
                status.complete(1);
            }
        });
        runner.setDaemon(true);
        runner.start();
        try {
            return status.get(SECONDS_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            System.err.println("No end of it after " + SECONDS_MAX + " s.");
            return 1;
        }
    }
}
