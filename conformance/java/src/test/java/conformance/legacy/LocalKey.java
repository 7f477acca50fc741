package conformance.legacy;

import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.microsoft.azure.keyvault.core.IKey;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import javax.crypto.Cipher;
import javax.crypto.KeyGenerator;
import javax.crypto.spec.SecretKeySpec;
import org.apache.commons.lang3.tuple.Pair;
import org.apache.commons.lang3.tuple.Triple;

/** A key in memory that wraps the keys of entities. The client uses no other method. */
final class LocalKey implements IKey {
    private final String id;
    private final String algorithm;
    private final String cipher;
    private final Key wrapping;
    private final Key unwrapping;

    private LocalKey(String id, String algorithm, String cipher, Key wrapping, Key unwrapping) {
        this.id = id;
        this.algorithm = algorithm;
        this.cipher = cipher;
        this.wrapping = wrapping;
        this.unwrapping = unwrapping;
    }

    static LocalKey symmetric(String id) throws GeneralSecurityException {
        KeyGenerator generator = KeyGenerator.getInstance("AES");
        generator.init(256);
        Key key = generator.generateKey();
        return new LocalKey(id, "A256KW", "AESWrap", key, key);
    }

    static LocalKey rsa(String id) throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        KeyPair pair = generator.generateKeyPair();
        return new LocalKey(id, "RSA-OAEP", "RSA/ECB/OAEPWithSHA-1AndMGF1Padding", pair.getPublic(), pair.getPrivate());
    }

    @Override
    public String getKid() {
        return id;
    }

    @Override
    public String getDefaultKeyWrapAlgorithm() {
        return algorithm;
    }

    @Override
    public ListenableFuture<Pair<byte[], String>> wrapKeyAsync(byte[] key, String ignored) {
        try {
            Cipher wrap = Cipher.getInstance(cipher);
            wrap.init(Cipher.WRAP_MODE, wrapping);
            return Futures.immediateFuture(Pair.of(wrap.wrap(new SecretKeySpec(key, "AES")), algorithm));
        } catch (GeneralSecurityException failure) {
            return Futures.immediateFailedFuture(failure);
        }
    }

    @Override
    public ListenableFuture<byte[]> unwrapKeyAsync(byte[] wrapped, String ignored) {
        try {
            Cipher unwrap = Cipher.getInstance(cipher);
            unwrap.init(Cipher.UNWRAP_MODE, unwrapping);
            return Futures.immediateFuture(unwrap.unwrap(wrapped, "AES", Cipher.SECRET_KEY).getEncoded());
        } catch (GeneralSecurityException failure) {
            return Futures.immediateFailedFuture(failure);
        }
    }

    @Override
    public String getDefaultEncryptionAlgorithm() {
        throw new UnsupportedOperationException();
    }

    @Override
    public String getDefaultSignatureAlgorithm() {
        throw new UnsupportedOperationException();
    }

    @Override
    public ListenableFuture<byte[]> decryptAsync(byte[] text, byte[] iv, byte[] data, byte[] tag, String algorithm) {
        throw new UnsupportedOperationException();
    }

    @Override
    public ListenableFuture<Triple<byte[], byte[], String>> encryptAsync(byte[] text, byte[] iv, byte[] data, String algorithm) {
        throw new UnsupportedOperationException();
    }

    @Override
    public ListenableFuture<Pair<byte[], String>> signAsync(byte[] digest, String algorithm) {
        throw new UnsupportedOperationException();
    }

    @Override
    public ListenableFuture<Boolean> verifyAsync(byte[] digest, byte[] signature, String algorithm) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void close() {
    }
}
