import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies webhooks. Needs Java 17 and no library. Headers are a map with names in any case. */
public final class JavaReceiver {
    private static final long TOLERANCE = 300; // seconds

    /** The beginning of an Ed25519 key as SubjectPublicKeyInfo (RFC 8410); the 32 bytes of the key follow. */
    private static final byte[] ED25519 = HexFormat.of().parseHex("302a300506032b6570032100");

    private JavaReceiver() {}

    /** Reports whether X-Webhook-Signature is that of an organization's secret (signing mode org_timestamp). */
    public static boolean organization(String secret, Map<String, String> headers, byte[] body, long now)
            throws GeneralSecurityException {
        String timestamp = headers.getOrDefault("x-webhook-timestamp", "");
        byte[] expected = hmac(bytes(secret), join(bytes(timestamp + "."), body));
        return recent(timestamp, now)
            && same(headers.getOrDefault("x-webhook-signature", ""), HexFormat.of().formatHex(expected));
    }

    /** Reports whether X-Webhook-Signature is that of an endpoint's own secret (signing mode endpoint_body). */
    public static boolean endpoint(String secret, Map<String, String> headers, byte[] body)
            throws GeneralSecurityException {
        String expected = "sha256=" + HexFormat.of().formatHex(hmac(bytes(secret), body));
        return same(headers.getOrDefault("x-webhook-signature", ""), expected);
    }

    /** Reports whether webhook-signature has a signature of key: a secret (v1), or a public key with whpk_ (v1a). */
    public static boolean standard(String key, Map<String, String> headers, byte[] body, long now)
            throws GeneralSecurityException {
        String timestamp = headers.getOrDefault("webhook-timestamp", "");
        if (!recent(timestamp, now)) {
            return false;
        }
        byte[] signed = join(bytes(headers.getOrDefault("webhook-id", "") + "." + timestamp + "."), body);
        for (String part : headers.getOrDefault("webhook-signature", "").split(" ")) {
            if (key.startsWith("whpk_")) {
                if (part.startsWith("v1a,") && ed25519(key.substring(5), part.substring(4), signed)) {
                    return true;
                }
                continue;
            }
            byte[] raw = key.startsWith("whsec_") ? Base64.getDecoder().decode(key.substring(6)) : bytes(key);
            if (same(part, "v1," + Base64.getEncoder().encodeToString(hmac(raw, signed)))) {
                return true;
            }
        }
        return false;
    }

    private static boolean recent(String timestamp, long now) {
        return timestamp.matches("[0-9]{1,12}") && Math.abs(now - Long.parseLong(timestamp)) <= TOLERANCE;
    }

    private static boolean same(String given, String expected) {
        return MessageDigest.isEqual(bytes(given), bytes(expected));
    }

    private static byte[] hmac(byte[] key, byte[] signed) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(signed);
    }

    private static boolean ed25519(String key, String encoded, byte[] signed) {
        try {
            byte[] spec = join(ED25519, Base64.getDecoder().decode(key));
            Signature verifier = Signature.getInstance("Ed25519");
            verifier.initVerify(KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(spec)));
            verifier.update(signed);
            return verifier.verify(Base64.getDecoder().decode(encoded));
        } catch (GeneralSecurityException | IllegalArgumentException e) {
            return false;
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] join(byte[] a, byte[] b) {
        byte[] both = new byte[a.length + b.length];
        System.arraycopy(a, 0, both, 0, a.length);
        System.arraycopy(b, 0, both, a.length, b.length);
        return both;
    }

    /**
     * Checks the deliveries of a file with a line for each: name, check, key, time, whether it is valid, body, and then
     * names and values of headers, in base64 and separated by spaces. Java's library reads no JSON.
     */
    public static void main(String[] args) throws Exception {
        int checked = 0;
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] fields = line.split(" ", -1);
            for (int i = 0; i < fields.length; i++) {
                fields[i] = new String(Base64.getDecoder().decode(fields[i]), StandardCharsets.UTF_8);
            }
            Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
            for (int i = 6; i + 1 < fields.length; i += 2) {
                headers.put(fields[i], fields[i + 1]);
            }
            long now = Long.parseLong(fields[3]);
            byte[] body = bytes(fields[5]);
            boolean valid = switch (fields[1]) {
                case "organization" -> organization(fields[2], headers, body, now);
                case "endpoint" -> endpoint(fields[2], headers, body);
                default -> standard(fields[2], headers, body, now);
            };
            if (valid != Boolean.parseBoolean(fields[4])) {
                System.err.println(fields[0] + ": " + valid + ", want " + fields[4]);
                System.exit(1);
            }
            checked++;
        }
        System.out.println(checked + " deliveries checked");
    }
}
