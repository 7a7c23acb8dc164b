package treefold.push;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.Deque;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;

/** A TLS session over a socket that does not block. */
final class TlsTunnel extends Tunnel {
    private static final int HANDSHAKE_RECORD = 22;
    private static final int ALERT_RECORD = 21;
    /** The place of the lesser byte of the version in a record's first bytes. */
    private static final int RECORD_MINOR = 2;

    private final SSLEngine engine;
    /** Encrypted bytes that arrived, and those that wait for the socket; both ready for reading. */
    private final ByteBuffer arrived;
    private final ByteBuffer leaving;
    /** Bytes that are decrypted and not read yet, ready for reading. */
    private final ByteBuffer decrypted;
    private boolean isFirst = true;
    private boolean isOver;
    private boolean hasBegun;

    TlsTunnel(SocketChannel socket, SSLEngine engine) throws SSLException {
        super(socket);
        this.engine = engine;
        int packet = engine.getSession().getPacketBufferSize();
        this.arrived = ByteBuffer.allocate(2 * packet).flip();
        this.leaving = ByteBuffer.allocate(2 * packet).flip();
        this.decrypted = ByteBuffer.allocate(2 * engine.getSession().getApplicationBufferSize()).flip();
        engine.beginHandshake();
    }

    SSLEngine engine() {
        return engine;
    }

    @Override
    boolean handshake() throws IOException {
        while (true) {
            flush();
            switch (engine.getHandshakeStatus()) {
                case NEED_WRAP -> {
                    if (leaving.hasRemaining()) {
                        return false;
                    }
                    wrap(ByteBuffer.allocate(0));
                }
                case NEED_TASK -> runTasks();
                case NEED_UNWRAP, NEED_UNWRAP_AGAIN -> {
                    if (!unwrap()) {
                        return false;
                    }
                }
                default -> {
                    return !leaving.hasRemaining();
                }
            }
        }
    }

    @Override
    int read(ByteBuffer into) throws IOException {
        while (!decrypted.hasRemaining()) {
            if (!unwrap()) {
                return isOver ? -1 : 0;
            }
            // A request for new keys must be answered.
            HandshakeStatus status = engine.getHandshakeStatus();
            if (status == HandshakeStatus.NEED_TASK) {
                runTasks();
            } else if (status == HandshakeStatus.NEED_WRAP && !leaving.hasRemaining()) {
                wrap(ByteBuffer.allocate(0));
                flush();
            }
        }
        return move(decrypted, into);
    }

    @Override
    void write(Deque<ByteBuffer> from) throws IOException {
        flush();
        while (!leaving.hasRemaining() && !from.isEmpty()) {
            if (from.element().hasRemaining()) {
                wrap(from.element());
                flush();
            } else {
                from.remove();
            }
        }
    }

    @Override
    boolean hasUnsent() {
        return leaving.hasRemaining();
    }

    private void flush() throws IOException {
        while (leaving.hasRemaining() && socket.write(leaving) > 0) {
            // The socket takes more.
        }
    }

    private void wrap(ByteBuffer plain) throws IOException {
        leaving.clear();
        try {
            SSLEngineResult result = engine.wrap(plain, leaving);
            if (result.getStatus() == SSLEngineResult.Status.CLOSED && plain.hasRemaining()) {
                throw new IOException("the TLS session is closed");
            }
        } finally {
            leaving.flip();
        }
        if (!hasBegun && leaving.remaining() > RECORD_MINOR) {
            // A node knows a TLS session by its first bytes, 22, 3 and 1. The JDK writes 22, 3 and 3. The version of a first
            // record means nothing in TLS 1.3 (RFC 8446, 5.1), and no signature covers it.
            leaving.put(RECORD_MINOR, (byte) 1);
            hasBegun = true;
        }
    }

    /** Decrypts a record. Returns false if a whole record has not arrived, or none will. */
    private boolean unwrap() throws IOException {
        while (true) {
            if (arrived.hasRemaining()) {
                checkFirst();
                decrypted.compact();
                SSLEngineResult result;
                try {
                    result = engine.unwrap(arrived, decrypted);
                } finally {
                    decrypted.flip();
                }
                switch (result.getStatus()) {
                    case OK -> {
                        return true;
                    }
                    case CLOSED -> {
                        isOver = true;
                        return false;
                    }
                    case BUFFER_OVERFLOW -> throw new SSLException("a record is too large");
                    default -> { }
                }
            }
            arrived.compact();
            int count;
            try {
                count = socket.read(arrived);
            } finally {
                arrived.flip();
            }
            if (count <= 0) {
                isOver |= count < 0;
                if (count < 0 && engine.getHandshakeStatus() != HandshakeStatus.NOT_HANDSHAKING) {
                    throw new IOException("it closed the connection in the TLS handshake");
                }
                return false;
            }
        }
    }

    private void checkFirst() throws EncryptionException {
        int first = arrived.get(arrived.position());
        if (isFirst && first != HANDSHAKE_RECORD && first != ALERT_RECORD) {
            throw new EncryptionException("the node does not encrypt its connections, and this side does (it has certificates)");
        }
        isFirst = false;
    }

    private void runTasks() {
        for (Runnable task = engine.getDelegatedTask(); task != null; task = engine.getDelegatedTask()) {
            task.run();
        }
    }
}
