/* Treefold's C interface: a program attaches to a network and answers the streams that are opened to it.
 * docs/attach.md has the guide: building, linking, ownership, threads.
 *
 * Made from crates/attach/src; changes are made there.
 *
 * Every function that can fail returns a treefold_code, or null, and fills `error`, which may be null. What is said to
 * be given out is untouched, or null, unless the function returns TREEFOLD_OK. Times are milliseconds: -1 is for ever,
 * 0 looks and does not wait. Texts are UTF-8 and end with a zero byte unless a length stands beside them.
 *
 * Every handle may be used from any thread. Which functions may run at the same time on one handle is said at each.
 * No function may be called in a signal handler, nor after fork in a child whose parent was attached.
 */

#ifndef TREEFOLD_H
#define TREEFOLD_H

#include <stddef.h>
#include <stdint.h>

/*
 Bytes of an error's message, its closing zero included; longer ones are cut.
 */
#define TREEFOLD_MESSAGE_BYTES 256

/*
 The outcome of a function.
 */
typedef enum treefold_code {
  /*
   Done.
   */
  TREEFOLD_OK = 0,
  /*
   Not within that time: nothing came, or there was no room. Another call may succeed.
   */
  TREEFOLD_AGAIN = 1,
  /*
   The stream is over, or the node has ended; no other call on this handle will succeed.
   */
  TREEFOLD_OVER = 2,
  /*
   An argument makes no sense; the message names it.
   */
  TREEFOLD_INVALID = 3,
  /*
   Nobody answered at any address in time, or nobody took the node in.
   */
  TREEFOLD_UNREACHABLE = 4,
  /*
   Who answered is of another cluster, or has another token, or speaks another version of the protocol, or is full.
   */
  TREEFOLD_REFUSED = 5,
  /*
   The system refused what a node needs: a port, a thread, a file descriptor.
   */
  TREEFOLD_START = 6,
  /*
   Another thread is receiving from this stream.
   */
  TREEFOLD_BUSY = 7,
  /*
   The packet is no typed packet, or the field is not there or of another type.
   */
  TREEFOLD_TYPE = 8,
  /*
   The array has more elements than there is room for; how many has been said.
   */
  TREEFOLD_NO_ROOM = 9,
  /*
   A defect in Treefold: it has panicked. The handle may be closed and should not be used otherwise.
   */
  TREEFOLD_BROKEN = 10,
} treefold_code;

/*
 A program's place in a network.
 */
typedef struct treefold_attached treefold_attached;

/*
 A typed packet that is being put together. One thread at a time uses it.
 */
typedef struct treefold_row treefold_row;

/*
 One endpoint's part in one stream.
 */
typedef struct treefold_stream treefold_stream;

/*
 Why a function failed. It is the caller's; every call that is given it overwrites it.
 */
typedef struct treefold_error {
  /*
   The same code that was returned.
   */
  enum treefold_code code;
  /*
   What happened, as a sentence that ends with a zero byte; empty after success.
   */
  char message[TREEFOLD_MESSAGE_BYTES];
} treefold_error;

/*
 What attaches, and where. Set it to zero and fill in what is needed: all that is zero or null has a default, save
 `size`, `at`, `service` and `endpoints`. It is read during the call only.
 */
typedef struct treefold_attachment {
  /*
   Its size, `sizeof(treefold_attachment)`: says which fields the program knows of. Later versions may add some at
   the end; a program that was compiled before then has their defaults.
   */
  size_t size;
  /*
   Nodes of the network as "host:port", any of them; they are tried in turn.
   */
  const char *const *at;
  /*
   How many.
   */
  size_t at_count;
  /*
   The cluster's name; "treefold" by default.
   */
  const char *cluster;
  /*
   The service that streams are opened to.
   */
  const char *service;
  /*
   Which of the service's endpoints the program is, from 0. Each gets streams of its own.
   */
  const uint32_t *endpoints;
  /*
   How many.
   */
  size_t endpoint_count;
  /*
   How many endpoints the service has in all; by default one more than the highest here.
   */
  uint32_t total;
  /*
   Where to listen, "host:port"; by default a free port of the address that the network was reached from.
   */
  const char *listen;
  /*
   Where others reach it, when that is not where it listens.
   */
  const char *advertise;
  /*
   The rack it stands in.
   */
  const char *rack;
  /*
   The zone it stands in.
   */
  const char *zone;
  /*
   How long attaching may take: -1 for ever, 0 for ten seconds. A network that is not there yet is waited for.
   */
  int64_t timeout_ms;
  /*
   The cluster's token; by default the environment's TREEFOLD_TOKEN. Without either, only a cluster that has none
   takes the program in.
   */
  const char *token;
} treefold_attachment;

/*
 A packet from the front-end. It does not change, and lives until it is given to treefold_packet_free, also when its
 stream is closed before. Reading it is allowed from any thread, several at a time. A packet that the caller has put
 together itself is none.
 */
typedef struct treefold_packet {
  /*
   The tag it was sent with: an answer goes to the same.
   */
  uint64_t tag;
  /*
   Its bytes.
   */
  const uint8_t *data;
  /*
   How many.
   */
  size_t len;
} treefold_packet;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What an error says; it lives as long as the error does and changes with it. An empty text for null.
 */
const char *treefold_error_message(const struct treefold_error *error);

/*
 The library's version, as "0.1.0". From any thread, at any time.
 */
const char *treefold_version(void);

/*
 Attaches the program, as one thread beside its own, and waits until streams may be opened to it. Null when that
 fails. The result is the caller's, to be given to treefold_detach. From any thread.
 */
struct treefold_attached *treefold_attach(const struct treefold_attachment *attachment,
                                          struct treefold_error *error);

/*
 Gives out the next stream that was opened to the program. TREEFOLD_AGAIN when none was within the time,
 TREEFOLD_OVER when the node has ended. The stream is the caller's, to be given to treefold_stream_close. From any
 thread, several at a time.
 */
enum treefold_code treefold_accept(const struct treefold_attached *attached,
                                   int64_t timeout_ms,
                                   struct treefold_stream **stream,
                                   struct treefold_error *error);

/*
 A file descriptor that is readable when something may have come: a stream, a packet, room to send, an end. For poll,
 epoll, kqueue and select; it is the library's, and must not be read or closed. When it is readable, call
 treefold_event_clear first, then look at everything with a time of 0 until there is TREEFOLD_AGAIN. -1 for null. From
 any thread.
 */
int treefold_event_fd(const struct treefold_attached *attached);

/*
 Makes the file descriptor of treefold_event_fd quiet until something comes again. From any thread.
 */
enum treefold_code treefold_event_clear(const struct treefold_attached *attached,
                                        struct treefold_error *error);

/*
 Leaves the network in order: the others hear of it at once and go on without the program. What it has sent is
 written, for `grace_ms` at most; TREEFOLD_AGAIN says that this was too short. The handle is gone in any case, and no
 other call on it may be under way. Streams that were accepted are over, and are still to be closed. Does nothing with
 null. From any thread.
 */
enum treefold_code treefold_detach(struct treefold_attached *attached,
                                   int64_t grace_ms,
                                   struct treefold_error *error);

/*
 Which of the program's endpoints the stream was opened to. From any thread.
 */
enum treefold_code treefold_stream_endpoint(const struct treefold_stream *stream,
                                            uint32_t *endpoint,
                                            struct treefold_error *error);

/*
 What the front-end gave the endpoints when it opened the stream. The bytes are the stream's, and live until it is
 closed. From any thread.
 */
enum treefold_code treefold_stream_params(const struct treefold_stream *stream,
                                          const uint8_t **data,
                                          size_t *len,
                                          struct treefold_error *error);

/*
 Gives out the stream's next packet. TREEFOLD_AGAIN when none came within the time, TREEFOLD_OVER when the stream is
 over and all its packets have been given out, TREEFOLD_BUSY when another thread is in this function with the same
 stream. The packet is the caller's, to be given to treefold_packet_free. From any thread, one at a time; others may
 send meanwhile.
 */
enum treefold_code treefold_recv(const struct treefold_stream *stream,
                                 int64_t timeout_ms,
                                 struct treefold_packet **packet,
                                 struct treefold_error *error);

/*
 Sends `len` bytes towards the front-end, in the wave after the last of this endpoint. They are copied.
 TREEFOLD_AGAIN when there was no room within the time (the front-end does not keep up, and nothing was sent),
 TREEFOLD_OVER when the stream is over. From any thread, several at a time.
 */
enum treefold_code treefold_send(const struct treefold_stream *stream,
                                 const uint8_t *data,
                                 size_t len,
                                 int64_t timeout_ms,
                                 struct treefold_error *error);

/*
 As treefold_send, in the wave of `tag`: the answer to a packet with that tag.
 */
enum treefold_code treefold_send_tagged(const struct treefold_stream *stream,
                                        uint64_t tag,
                                        const uint8_t *data,
                                        size_t len,
                                        int64_t timeout_ms,
                                        struct treefold_error *error);

/*
 Gives the stream back. It is the front-end that ends a stream: one that is closed here before its end drops what
 comes, and waves that wait for all wait for this endpoint until the program detaches. Packets that were given out
 stay. No other call on the stream may be under way. Does nothing with null. From any thread.
 */
void treefold_stream_close(struct treefold_stream *stream);

/*
 Gives a packet back, and all texts and bytes that were read from it. Does nothing with null. From any thread.
 */
void treefold_packet_free(struct treefold_packet *packet);

/*
 How many fields a typed packet has.
 */
enum treefold_code treefold_packet_fields(const struct treefold_packet *packet,
                                          size_t *fields,
                                          struct treefold_error *error);

/*
 Reads the whole number in field `field`, counted from 0.
 */
enum treefold_code treefold_packet_i64(const struct treefold_packet *packet,
                                       size_t field,
                                       int64_t *value,
                                       struct treefold_error *error);

/*
 Reads the whole number without a sign in field `field`, counted from 0.
 */
enum treefold_code treefold_packet_u64(const struct treefold_packet *packet,
                                       size_t field,
                                       uint64_t *value,
                                       struct treefold_error *error);

/*
 Reads the floating-point number in field `field`, counted from 0.
 */
enum treefold_code treefold_packet_f64(const struct treefold_packet *packet,
                                       size_t field,
                                       double *value,
                                       struct treefold_error *error);

/*
 Copies the array of whole numbers in field `field` to `values`, which has room for `capacity`; `count` is how many it
 has. When there is no room for all, none is copied and the outcome is TREEFOLD_NO_ROOM: ask with a capacity of 0 for
 the count alone.
 */
enum treefold_code treefold_packet_i64s(const struct treefold_packet *packet,
                                        size_t field,
                                        int64_t *values,
                                        size_t capacity,
                                        size_t *count,
                                        struct treefold_error *error);

/*
 As treefold_packet_i64s, for floating-point numbers.
 */
enum treefold_code treefold_packet_f64s(const struct treefold_packet *packet,
                                        size_t field,
                                        double *values,
                                        size_t capacity,
                                        size_t *count,
                                        struct treefold_error *error);

/*
 Gives out the text in field `field`: `len` bytes of UTF-8 that do *not* end with a zero. They are the packet's, and
 live as long as it does.
 */
enum treefold_code treefold_packet_str(const struct treefold_packet *packet,
                                       size_t field,
                                       const char **text,
                                       size_t *len,
                                       struct treefold_error *error);

/*
 Gives out the bytes in field `field`. They are the packet's, and live as long as it does.
 */
enum treefold_code treefold_packet_blob(const struct treefold_packet *packet,
                                        size_t field,
                                        const uint8_t **data,
                                        size_t *len,
                                        struct treefold_error *error);

/*
 A row without values. It is the caller's, to be given to treefold_row_free. From any thread.
 */
struct treefold_row *treefold_row_new(void);

/*
 Takes all values out of the row. Does nothing with null.
 */
void treefold_row_clear(struct treefold_row *row);

/*
 Gives a row back. Does nothing with null.
 */
void treefold_row_free(struct treefold_row *row);

/*
 Appends a whole number, an `i64`. A row has 255 values at most.
 */
enum treefold_code treefold_row_i64(struct treefold_row *row, int64_t value, struct treefold_error *error);

/*
 Appends a whole number without a sign, a `u64`.
 */
enum treefold_code treefold_row_u64(struct treefold_row *row, uint64_t value, struct treefold_error *error);

/*
 Appends a floating-point number, an `f64`.
 */
enum treefold_code treefold_row_f64(struct treefold_row *row, double value, struct treefold_error *error);

/*
 Appends an array of `count` whole numbers, `i64s`.
 */
enum treefold_code treefold_row_i64s(struct treefold_row *row,
                                     const int64_t *values,
                                     size_t count,
                                     struct treefold_error *error);

/*
 Appends an array of `count` floating-point numbers, `f64s`.
 */
enum treefold_code treefold_row_f64s(struct treefold_row *row,
                                     const double *values,
                                     size_t count,
                                     struct treefold_error *error);

/*
 Appends a text, a `str`.
 */
enum treefold_code treefold_row_str(struct treefold_row *row, const char *text, struct treefold_error *error);

/*
 Appends `len` bytes as they are, a `blob`.
 */
enum treefold_code treefold_row_blob(struct treefold_row *row,
                                     const uint8_t *data,
                                     size_t len,
                                     struct treefold_error *error);

/*
 As treefold_send, with the row's values as a typed packet. After TREEFOLD_OK the row is empty, to be filled again;
 otherwise it is as it was.
 */
enum treefold_code treefold_send_row(const struct treefold_stream *stream,
                                     struct treefold_row *row,
                                     int64_t timeout_ms,
                                     struct treefold_error *error);

/*
 As treefold_send_row, in the wave of `tag`: the answer to a packet with that tag.
 */
enum treefold_code treefold_send_row_tagged(const struct treefold_stream *stream,
                                            uint64_t tag,
                                            struct treefold_row *row,
                                            int64_t timeout_ms,
                                            struct treefold_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TREEFOLD_H */
