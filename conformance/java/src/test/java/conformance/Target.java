package conformance;

import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;

/** The endpoint under test, from the environment, and names that no other run uses. */
public final class Target {
    public static final String ACCOUNT = variable("TABLES_ACCOUNT", "devstoreaccount1");
    public static final String KEY = variable("TABLES_KEY",
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==");
    /** A well-formed key that is not the key of the account. */
    public static final String WRONG_KEY = "d3Jvbmc=";
    public static final String ENDPOINT = variable("TABLES_ENDPOINT", "http://127.0.0.1:10002/" + ACCOUNT).replaceAll("/$", "");
    /** The same account's secondary endpoint, in path style or host style. */
    public static final String SECONDARY = ENDPOINT.replaceFirst(Pattern.quote(ACCOUNT), ACCOUNT + "-secondary");

    private static final AtomicInteger PARTITIONS = new AtomicInteger();

    private Target() {
    }

    private static String variable(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    /** Returns a new table name. The account may be shared with other runs and suites. */
    public static String newTableName() {
        return "java" + UUID.randomUUID().toString().replace("-", "");
    }

    /** Returns a new partition. Each case has its own, because one table serves a whole class. */
    public static String newPartition() {
        return "partition-" + PARTITIONS.incrementAndGet();
    }
}
