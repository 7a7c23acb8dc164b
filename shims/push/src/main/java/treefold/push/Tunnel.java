package treefold.push;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.Deque;

/** The bytes of a connection, encrypted or not. Nothing waits here. */
abstract class Tunnel implements Closeable {
    final SocketChannel socket;

    Tunnel(SocketChannel socket) {
        this.socket = socket;
    }

    /** Goes on with the handshake. Returns true when it is complete. */
    abstract boolean handshake() throws IOException;

    /** Reads bytes. Returns their number, 0 if none are there, or -1 at the end of the connection. */
    abstract int read(ByteBuffer into) throws IOException;

    /** Writes as much as the socket accepts, and removes the buffers that are written. */
    abstract void write(Deque<ByteBuffer> from) throws IOException;

    /** True if bytes that were given to {@link #write} or made by the handshake wait for the socket. */
    abstract boolean hasUnsent();

    /** Moves as many bytes as there are and as there is room for. Returns their number. */
    static int move(ByteBuffer from, ByteBuffer into) {
        int count = Math.min(from.remaining(), into.remaining());
        into.put(into.position(), from, from.position(), count);
        into.position(into.position() + count);
        from.position(from.position() + count);
        return count;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }

    /** A connection that is not encrypted. */
    static final class Plain extends Tunnel {
        Plain(SocketChannel socket) {
            super(socket);
        }

        @Override
        boolean handshake() {
            return true;
        }

        @Override
        int read(ByteBuffer into) throws IOException {
            return socket.read(into);
        }

        @Override
        void write(Deque<ByteBuffer> from) throws IOException {
            while (!from.isEmpty()) {
                socket.write(from.element());
                if (from.element().hasRemaining()) {
                    return;
                }
                from.remove();
            }
        }

        @Override
        boolean hasUnsent() {
            return false;
        }
    }
}
