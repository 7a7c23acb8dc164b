/* Treefold's C interface: a program attaches to a network and answers the streams that are opened to it, or opens
 * streams as a front-end.
 * docs/attach.md is the guide to building, linking, ownership and threads.
 *
 * This file is generated from crates/attach/src. Make changes there.
 *
 * Every function that can fail returns a treefold_code, or null, and fills `error`, which may be null. Unless the
 * function returns TREEFOLD_OK, the results that it gets are unchanged or null. Times are in milliseconds: -1 waits for
 * ever, 0 does not wait. Texts are UTF-8 and end with a zero byte, unless they have a length beside them.
 *
 * Every handle may be used from any thread. Each function states whether several threads may call it at the same time.
 * Do not call any function in a signal handler, or after fork in a child whose parent was attached.
 */

#ifndef TREEFOLD_H
#define TREEFOLD_H

#include <stddef.h>
#include <stdint.h>

/*
 Bytes of an error's message with its final zero byte. Longer messages are cut.
 */
#define TREEFOLD_MESSAGE_BYTES 256

/*
 The outcome of a function.
 */
typedef enum treefold_code {
  /*
   Success.
   */
  TREEFOLD_OK = 0,
  /*
   Not within the given time: nothing arrived, or there was no room. Another call may succeed.
   */
  TREEFOLD_AGAIN = 1,
  /*
   The stream is over, or the node has ended. No later call on this handle will succeed.
   */
  TREEFOLD_OVER = 2,
  /*
   An argument is invalid. The message names it.
   */
  TREEFOLD_INVALID = 3,
  /*
   No node answered at any address in time, or no node took the program in.
   */
  TREEFOLD_UNREACHABLE = 4,
  /*
   The node that answered is of another cluster, has another token, speaks another protocol version, or
   is full.
   */
  TREEFOLD_REFUSED = 5,
  /*
   The operating system refused a port, a thread or a file descriptor that the node needs.
   */
  TREEFOLD_START = 6,
  /*
   Another thread is receiving from this stream.
   */
  TREEFOLD_BUSY = 7,
  /*
   The packet is not a typed packet, or the field does not exist or has another type.
   */
  TREEFOLD_TYPE = 8,
  /*
   The array has more elements than there is room for. The array's length has been stored.
   */
  TREEFOLD_NO_ROOM = 9,
  /*
   Treefold has panicked because of a defect in it. The handle may be closed, and should not be used
   otherwise.
   */
  TREEFOLD_BROKEN = 10,
} treefold_code;

/*
 The type of a field of a typed packet, as docs/protocol.md numbers it. An array's number is its element's plus 16.
 */
typedef enum treefold_type {
  /*
   An int64_t.
   */
  TREEFOLD_I64 = 1,
  /*
   A uint64_t.
   */
  TREEFOLD_U64 = 2,
  /*
   A double.
   */
  TREEFOLD_F64 = 3,
  /*
   A float.
   */
  TREEFOLD_F32 = 4,
  /*
   A text.
   */
  TREEFOLD_STR = 5,
  /*
   Bytes.
   */
  TREEFOLD_BLOB = 6,
  /*
   An int32_t.
   */
  TREEFOLD_I32 = 7,
  /*
   A uint32_t.
   */
  TREEFOLD_U32 = 8,
  /*
   An int16_t.
   */
  TREEFOLD_I16 = 9,
  /*
   A uint16_t.
   */
  TREEFOLD_U16 = 10,
  /*
   An int8_t.
   */
  TREEFOLD_I8 = 11,
  /*
   A uint8_t.
   */
  TREEFOLD_U8 = 12,
  /*
   An array of TREEFOLD_I64.
   */
  TREEFOLD_I64S = 17,
  /*
   An array of TREEFOLD_U64.
   */
  TREEFOLD_U64S = 18,
  /*
   An array of TREEFOLD_F64.
   */
  TREEFOLD_F64S = 19,
  /*
   An array of TREEFOLD_F32.
   */
  TREEFOLD_F32S = 20,
  /*
   An array of TREEFOLD_STR.
   */
  TREEFOLD_STRS = 21,
  /*
   An array of TREEFOLD_BLOB.
   */
  TREEFOLD_BLOBS = 22,
  /*
   An array of TREEFOLD_I32.
   */
  TREEFOLD_I32S = 23,
  /*
   An array of TREEFOLD_U32.
   */
  TREEFOLD_U32S = 24,
  /*
   An array of TREEFOLD_I16.
   */
  TREEFOLD_I16S = 25,
  /*
   An array of TREEFOLD_U16.
   */
  TREEFOLD_U16S = 26,
  /*
   An array of TREEFOLD_I8.
   */
  TREEFOLD_I8S = 27,
  /*
   An array of TREEFOLD_U8.
   */
  TREEFOLD_U8S = 28,
} treefold_type;

/*
 A program's place in a network.
 */
typedef struct treefold_attached treefold_attached;

/*
 A front-end's connection to a network.
 */
typedef struct treefold_connection treefold_connection;

/*
 The front-end's side of a stream.
 */
typedef struct treefold_front treefold_front;

/*
 A typed packet under construction. Only one thread at a time may use it.
 */
typedef struct treefold_row treefold_row;

/*
 One endpoint's part in one stream.
 */
typedef struct treefold_stream treefold_stream;

/*
 Why a function failed. The caller owns it, and every call that gets it overwrites it.
 */
typedef struct treefold_error {
  /*
   The code that the function returned.
   */
  enum treefold_code code;
  /*
   The reason, as a sentence that ends with a zero byte. Empty after success.
   */
  char message[TREEFOLD_MESSAGE_BYTES];
} treefold_error;

/*
 The attachment of a program. Set it to zero and fill in the needed fields. Every field that is zero or
 null has a default, except `size`, `at`, `service` and `endpoints`. It is read only during the call.
 */
typedef struct treefold_attachment {
  /*
   The size of this structure, `sizeof(treefold_attachment)`, which shows which fields the program
   knows. Later versions may add fields at the end; a program that was compiled before that gets their
   defaults.
   */
  size_t size;
  /*
   Nodes of the network, any of them, as "host:port". They are tried in turn.
   */
  const char *const *at;
  /*
   Length of `at`.
   */
  size_t at_count;
  /*
   The cluster's name. Default: "treefold".
   */
  const char *cluster;
  /*
   The service to which streams are opened.
   */
  const char *service;
  /*
   The service's endpoints that are this program, numbered from 0. Each gets its own streams.
   */
  const uint32_t *endpoints;
  /*
   Length of `endpoints`.
   */
  size_t endpoint_count;
  /*
   The number of endpoints of the service in all. Default: one more than the highest in `endpoints`.
   */
  uint32_t total;
  /*
   The listening address, "host:port". Default: a free port at the address from which the network was
   reached.
   */
  const char *listen;
  /*
   The address at which others reach the program, if it differs from the listening address.
   */
  const char *advertise;
  /*
   The rack of the program's host.
   */
  const char *rack;
  /*
   The zone of the program's host.
   */
  const char *zone;
  /*
   Time limit for attaching. -1: for ever. 0: ten seconds. The call also waits for a network that
   starts later.
   */
  int64_t timeout_ms;
  /*
   The cluster's token. Default: the environment variable TREEFOLD_TOKEN. A program without a token is
   only taken in by a cluster without one.
   */
  const char *token;
} treefold_attachment;

/*
 A packet from the front-end. It never changes, and lives until it is given to treefold_packet_free, even
 if its stream is closed earlier. It may be read from any thread, and from several at a time. Only
 packets from treefold_recv are valid: a structure that the program fills in itself is not a packet.
 */
typedef struct treefold_packet {
  /*
   The tag with which it was sent. An answer uses the same tag.
   */
  uint64_t tag;
  /*
   The packet's bytes.
   */
  const uint8_t *data;
  /*
   Length of `data`.
   */
  size_t len;
} treefold_packet;

/*
 The connection of a front-end. Set it to zero and fill in the needed fields. Every field that is zero or
 null has a default, except `size` and `at`. It is read only during the call.
 */
typedef struct treefold_connecting {
  /*
   The size of this structure, `sizeof(treefold_connecting)`, as in a treefold_attachment.
   */
  size_t size;
  /*
   Nodes of the network, any of them, as "host:port".
   */
  const char *const *at;
  /*
   Length of `at`.
   */
  size_t at_count;
  /*
   The cluster's name. Default: "treefold".
   */
  const char *cluster;
  /*
   The cluster's token. Default: the environment variable TREEFOLD_TOKEN.
   */
  const char *token;
  /*
   Time limit for connecting. -1: for ever. 0: ten seconds. The call also waits for a network that
   starts later.
   */
  int64_t timeout_ms;
} treefold_connecting;

/*
 A wave that a front-end has received. It never changes, and lives until it is given to treefold_wave_free, even if its
 stream is closed earlier. It may be read from any thread, and from several at a time. Only waves from
 treefold_front_recv and treefold_recv_any are valid.
 */
typedef struct treefold_wave {
  /*
   Its tag: that of the packet which the endpoints answered, or its number.
   */
  uint64_t tag;
  /*
   The number of its packets: one if a filter folds them, else one for each endpoint.
   */
  size_t packets;
  /*
   The number of endpoints whose packets are in the wave.
   */
  size_t contributors;
  /*
   The number of endpoints that are not in the wave, although they were expected.
   */
  size_t missing;
} treefold_wave;

/*
 A network to start. Set it to zero and fill in the needed fields. Every field that is zero or null has a default, except
 `size` and `topology`. It is read only during the call.
 */
typedef struct treefold_raising {
  /*
   The size of this structure, `sizeof(treefold_raising)`, as in a treefold_attachment.
   */
  size_t size;
  /*
   Path of the topology file.
   */
  const char *topology;
  /*
   The command of each back-end, its words, the program first. In them, {attach} is replaced by the address to attach to,
   {number} by the back-end's number, {total} by the number of back-ends, and {place} by its name in the topology. Default:
   back-ends serve "echo", endpoints that send each packet back.
   */
  const char *const *back_end;
  /*
   Length of `back_end`.
   */
  size_t back_end_count;
  /*
   The command treefold, which inner processes run, on each host. Default: "treefold", on the PATH.
   */
  const char *program;
  /*
   The network's token. Default: the environment variable TREEFOLD_TOKEN, or else one that is drawn at random.
   */
  const char *token;
  /*
   The front-end's listening address, "host:port". Default: a free port, of the loopback address if all processes run here.
   */
  const char *listen;
  /*
   The address at which other processes reach the front-end.
   */
  const char *advertise;
  /*
   Not 0: start all processes on this host, even if the topology names other hosts.
   */
  int local;
  /*
   Not 0: accept a network in which some processes did not start.
   */
  int allow_failures;
  /*
   Time limit for the start of all processes. -1: for ever. 0: thirty seconds.
   */
  int64_t timeout_ms;
} treefold_raising;

/*
 A stream to open. Set it to zero and fill in the needed fields. Every field that is zero or null has a
 default, except `size` and `service`. It is read only during the call.
 */
typedef struct treefold_opening {
  /*
   The size of this structure, `sizeof(treefold_opening)`, as in a treefold_attachment.
   */
  size_t size;
  /*
   The service to whose endpoints the stream is opened.
   */
  const char *service;
  /*
   The filter that folds the packets of a wave. Default: none, all packets arrive.
   */
  const char *up_filter;
  /*
   The filter that packets pass on their way down. Default: none.
   */
  const char *down_filter;
  /*
   The parameters of the filters: a MessagePack map.
   */
  const uint8_t *filter_params;
  /*
   Length of `filter_params`.
   */
  size_t filter_params_len;
  /*
   The parameters that each endpoint gets when the stream is opened, any bytes.
   */
  const uint8_t *params;
  /*
   Length of `params`.
   */
  size_t params_len;
  /*
   The endpoints. Default: all that the service has, and all that join later.
   */
  const uint32_t *endpoints;
  /*
   Length of `endpoints`.
   */
  size_t endpoint_count;
  /*
   When a wave is complete: a treefold_synchronisation.
   */
  uint32_t synchronisation;
  /*
   The time of TREEFOLD_TIME_OUT.
   */
  uint32_t time_out_ms;
  /*
   The program's own pointer for this stream, which treefold_recv_any returns with its waves. The library
   never follows it.
   */
  void *context;
} treefold_opening;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The message of an error. It lives as long as the error, and changes with it. For null, an empty text.
 */
const char *treefold_error_message(const struct treefold_error *error);

/*
 The library's version, as in "0.1.0". May be called from any thread at any time.
 */
const char *treefold_version(void);

/*
 Attaches the program and waits until streams can be opened to it. The node runs on one thread of its
 own. Returns null on failure. The caller owns the result and must give it to treefold_detach. May be
 called from any thread.
 */
struct treefold_attached *treefold_attach(const struct treefold_attachment *attachment,
                                          struct treefold_error *error);

/*
 Gets the next stream that was opened to the program. TREEFOLD_AGAIN: none was opened in that time.
 TREEFOLD_OVER: the node has ended. The caller owns the stream and must give it to treefold_stream_close.
 May be called from any thread, and from several at a time.
 */
enum treefold_code treefold_accept(const struct treefold_attached *attached,
                                   int64_t timeout_ms,
                                   struct treefold_stream **stream,
                                   struct treefold_error *error);

/*
 A file descriptor that is readable when there may be news: a stream, a packet, room to send, or an end.
 Use it with poll, epoll, kqueue or select. It belongs to the library: do not read or close it. When it
 is readable, call treefold_event_clear first, then call every function of interest with a time of 0
 until it returns TREEFOLD_AGAIN. Returns -1 for null. May be called from any thread.
 */
int treefold_event_fd(const struct treefold_attached *attached);

/*
 Makes the descriptor of treefold_event_fd unreadable until there is news again. May be called from any
 thread.
 */
enum treefold_code treefold_event_clear(const struct treefold_attached *attached,
                                        struct treefold_error *error);

/*
 Leaves the network in order: the others learn of it at once and go on without the program. Packets that
 were sent are still written, for at most `grace_ms`; TREEFOLD_AGAIN means that this time was too short.
 The handle is freed in every case, and no other call on it may be running. Accepted streams are over,
 but must still be closed. Null is ignored. May be called from any thread.
 */
enum treefold_code treefold_detach(struct treefold_attached *attached,
                                   int64_t grace_ms,
                                   struct treefold_error *error);

/*
 Gets the number of the program's endpoint to which the stream was opened. May be called from any thread.
 */
enum treefold_code treefold_stream_endpoint(const struct treefold_stream *stream,
                                            uint32_t *endpoint,
                                            struct treefold_error *error);

/*
 Gets the parameters that the front-end gave the endpoints when it opened the stream. The bytes belong to
 the stream and live until it is closed. May be called from any thread.
 */
enum treefold_code treefold_stream_params(const struct treefold_stream *stream,
                                          const uint8_t **data,
                                          size_t *len,
                                          struct treefold_error *error);

/*
 Gets the stream's next packet. TREEFOLD_AGAIN: none arrived in that time. TREEFOLD_OVER: the stream is
 over, and all its packets have been received. TREEFOLD_BUSY: another thread is receiving from this
 stream. The caller owns the packet and must give it to treefold_packet_free. May be called from any
 thread, but only by one at a time; other threads may send at the same time.
 */
enum treefold_code treefold_recv(const struct treefold_stream *stream,
                                 int64_t timeout_ms,
                                 struct treefold_packet **packet,
                                 struct treefold_error *error);

/*
 Copies `len` bytes and sends them towards the front-end, in the wave after the last one of this
 endpoint. TREEFOLD_AGAIN: there was no room in that time because the front-end is too slow, and nothing
 was sent. TREEFOLD_OVER: the stream is over. May be called from any thread, and from several at a time.
 */
enum treefold_code treefold_send(const struct treefold_stream *stream,
                                 const uint8_t *data,
                                 size_t len,
                                 int64_t timeout_ms,
                                 struct treefold_error *error);

/*
 Sends bytes like treefold_send, in the wave of `tag`: as the answer to a packet with that tag.
 */
enum treefold_code treefold_send_tagged(const struct treefold_stream *stream,
                                        uint64_t tag,
                                        const uint8_t *data,
                                        size_t len,
                                        int64_t timeout_ms,
                                        struct treefold_error *error);

/*
 Closes this endpoint's side of the stream. Only the front-end can end a stream: if it is still open, its
 packets are discarded from now on, and waves that wait for all endpoints wait for this one until the
 program detaches. Packets that were received stay valid. No other call on the stream may be running.
 Null is ignored. May be called from any thread.
 */
void treefold_stream_close(struct treefold_stream *stream);

/*
 Frees a packet, and all texts and bytes that were read from it. Null is ignored. May be called from any
 thread.
 */
void treefold_packet_free(struct treefold_packet *packet);

/*
 Gets the number of fields of a typed packet.
 */
enum treefold_code treefold_packet_fields(const struct treefold_packet *packet,
                                          size_t *fields,
                                          struct treefold_error *error);

/*
 Reads the signed integer in field `field`, counted from 0.
 */
enum treefold_code treefold_packet_i64(const struct treefold_packet *packet,
                                       size_t field,
                                       int64_t *value,
                                       struct treefold_error *error);

/*
 Reads the unsigned integer in field `field`, counted from 0.
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
 Copies the array of integers in field `field` to `values`, which has room for `capacity` elements, and
 sets `count` to the array's length. If there is too little room, nothing is copied and TREEFOLD_NO_ROOM
 is returned. Use a capacity of 0 to get only the count.
 */
enum treefold_code treefold_packet_i64s(const struct treefold_packet *packet,
                                        size_t field,
                                        int64_t *values,
                                        size_t capacity,
                                        size_t *count,
                                        struct treefold_error *error);

/*
 Copies an array like treefold_packet_i64s, of floating-point numbers.
 */
enum treefold_code treefold_packet_f64s(const struct treefold_packet *packet,
                                        size_t field,
                                        double *values,
                                        size_t capacity,
                                        size_t *count,
                                        struct treefold_error *error);

/*
 Gets the text in field `field`: `len` bytes of UTF-8 *without* a final zero byte. They belong to the
 packet, and live as long as it does.
 */
enum treefold_code treefold_packet_str(const struct treefold_packet *packet,
                                       size_t field,
                                       const char **text,
                                       size_t *len,
                                       struct treefold_error *error);

/*
 Gets the bytes in field `field`. They belong to the packet, and live as long as it does.
 */
enum treefold_code treefold_packet_blob(const struct treefold_packet *packet,
                                        size_t field,
                                        const uint8_t **data,
                                        size_t *len,
                                        struct treefold_error *error);

/*
 Makes an empty row. The caller owns it and must give it to treefold_row_free. May be called from any
 thread.
 */
struct treefold_row *treefold_row_new(void);

/*
 Removes all values from the row. Null is ignored.
 */
void treefold_row_clear(struct treefold_row *row);

/*
 Frees a row. Null is ignored.
 */
void treefold_row_free(struct treefold_row *row);

/*
 Appends a signed integer, an `i64`. A row has at most 255 values.
 */
enum treefold_code treefold_row_i64(struct treefold_row *row, int64_t value, struct treefold_error *error);

/*
 Appends an unsigned integer, a `u64`.
 */
enum treefold_code treefold_row_u64(struct treefold_row *row, uint64_t value, struct treefold_error *error);

/*
 Appends a floating-point number, an `f64`.
 */
enum treefold_code treefold_row_f64(struct treefold_row *row, double value, struct treefold_error *error);

/*
 Appends an array of `count` signed integers, `i64s`.
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
 Appends `len` bytes, a `blob`.
 */
enum treefold_code treefold_row_blob(struct treefold_row *row,
                                     const uint8_t *data,
                                     size_t len,
                                     struct treefold_error *error);

/*
 Sends the row's values as a typed packet, like treefold_send. After TREEFOLD_OK the row is empty and can
 be filled again; otherwise it is unchanged.
 */
enum treefold_code treefold_send_row(const struct treefold_stream *stream,
                                     struct treefold_row *row,
                                     int64_t timeout_ms,
                                     struct treefold_error *error);

/*
 Sends a row like treefold_send_row, in the wave of `tag`: as the answer to a packet with that tag.
 */
enum treefold_code treefold_send_row_tagged(const struct treefold_stream *stream,
                                            uint64_t tag,
                                            struct treefold_row *row,
                                            int64_t timeout_ms,
                                            struct treefold_error *error);

/*
 Gets the type of field `field`, counted from 0, as a treefold_type.
 */
enum treefold_code treefold_packet_type(const struct treefold_packet *packet,
                                        size_t field,
                                        uint32_t *kind,
                                        struct treefold_error *error);

/*
 Copies the numbers in field `field`, which must be of type `kind`, to `values`, which has room for `capacity` of them,
 and sets `count` to how many there are. `kind` is a treefold_type: TREEFOLD_I16 gets one int16_t, and TREEFOLD_I16S an
 array of them. If there is too little room, nothing is copied and TREEFOLD_NO_ROOM is returned. Use a capacity of 0 to
 get only the count.
 */
enum treefold_code treefold_packet_numbers(const struct treefold_packet *packet,
                                           size_t field,
                                           uint32_t kind,
                                           void *values,
                                           size_t capacity,
                                           size_t *count,
                                           struct treefold_error *error);

/*
 Appends `count` numbers of type `kind`, a treefold_type: one if it is the type of a number, such as TREEFOLD_U8, and
 any number of them if it is the type of an array, such as TREEFOLD_U8S.
 */
enum treefold_code treefold_row_numbers(struct treefold_row *row,
                                        uint32_t kind,
                                        const void *values,
                                        size_t count,
                                        struct treefold_error *error);

/*
 Connects a front-end, and waits until a node of the network is in sight. The connection has two threads of its own.
 Returns null on failure. The caller owns the result and must give it to treefold_disconnect. May be called from any
 thread.
 */
struct treefold_connection *treefold_connect(const struct treefold_connecting *connecting,
                                             struct treefold_error *error);

/*
 Gets the next wave of any stream of the connection, and sets `context` to that of the stream's
 treefold_opening. Streams with waves take turns. TREEFOLD_AGAIN: none arrived in that time. TREEFOLD_OVER: the
 stream with this context is over, and all its waves have been received; each end is reported once. The caller owns the
 wave and must give it to treefold_wave_free. May be called from any thread, and from several at a time.
 */
enum treefold_code treefold_recv_any(const struct treefold_connection *connection,
                                     int64_t timeout_ms,
                                     void **context,
                                     struct treefold_wave **wave,
                                     struct treefold_error *error);

/*
 A file descriptor that is readable when there may be news of any stream: a wave or an end. Use it like that of
 treefold_event_fd: when it is readable, call treefold_connection_clear first, then treefold_recv_any with a time of 0
 until it returns TREEFOLD_AGAIN. Returns -1 for null. May be called from any thread.
 */
int treefold_connection_fd(const struct treefold_connection *connection);

/*
 Makes the descriptor of treefold_connection_fd unreadable until there is news again. May be called from any thread.
 */
enum treefold_code treefold_connection_clear(const struct treefold_connection *connection,
                                             struct treefold_error *error);

/*
 Copies the address of the node that hosts an endpoint of a service, as in "10.0.0.7:7700" with a zero byte at its end, to
 `addr`, as treefold_packet_i64s copies an array. TREEFOLD_INVALID: the service has no such endpoint in sight. May be called
 from any thread, and from several at a time.
 */
enum treefold_code treefold_endpoint_addr(const struct treefold_connection *connection,
                                          const char *service,
                                          uint32_t endpoint,
                                          char *addr,
                                          size_t capacity,
                                          size_t *count,
                                          struct treefold_error *error);

/*
 Frees a connection. Its streams stay open until they are closed. No other call on the connection may be running. Null
 is ignored. May be called from any thread.
 */
void treefold_disconnect(struct treefold_connection *connection);

/*
 Starts a network from a topology file, with this program as its front-end, and waits until all processes have attached.
 Streams follow the topology, and its inner processes fold. Returns null on failure; the error names a process that did not
 attach. The caller owns the result and must give it to treefold_disconnect; the network ends when that and all streams of the
 connection are closed, or with this program. May be called from any thread.
 */
struct treefold_connection *treefold_up(const struct treefold_raising *raising,
                                        struct treefold_error *error);

/*
 Opens a stream, and waits until all endpoints that can be reached take part. Returns null on failure. The caller owns the
 result and must give it to treefold_front_close. May be called from any thread, and from several at a time.
 */
struct treefold_front *treefold_open(const struct treefold_connection *connection,
                                     const struct treefold_opening *opening,
                                     struct treefold_error *error);

/*
 Copies the numbers of the endpoints that took part when the stream was opened to `endpoints`, as treefold_packet_i64s
 copies an array. May be called from any thread.
 */
enum treefold_code treefold_front_endpoints(const struct treefold_front *front,
                                            uint32_t *endpoints,
                                            size_t capacity,
                                            size_t *count,
                                            struct treefold_error *error);

/*
 Copies `len` bytes and sends them to all endpoints of the stream. `tag`, which may be null, is set to the number by which
 the endpoints' answers will form one wave. TREEFOLD_AGAIN: there was no room in that time because the endpoints are too
 slow, and nothing was sent. TREEFOLD_OVER: the stream is over. May be called from any thread, and from several at a time.
 */
enum treefold_code treefold_front_send(const struct treefold_front *front,
                                       const uint8_t *data,
                                       size_t len,
                                       int64_t timeout_ms,
                                       uint64_t *tag,
                                       struct treefold_error *error);

/*
 Sends a row like treefold_front_send. The row is empty after success, and unchanged otherwise.
 */
enum treefold_code treefold_front_send_row(const struct treefold_front *front,
                                           struct treefold_row *row,
                                           int64_t timeout_ms,
                                           uint64_t *tag,
                                           struct treefold_error *error);

/*
 Sends bytes like treefold_front_send, to some endpoints only. One endpoint is MRNet's point-to-point message. The other
 endpoints are missing from the wave of the answers.
 */
enum treefold_code treefold_front_send_to(const struct treefold_front *front,
                                          const uint32_t *endpoints,
                                          size_t endpoint_count,
                                          const uint8_t *data,
                                          size_t len,
                                          int64_t timeout_ms,
                                          uint64_t *tag,
                                          struct treefold_error *error);

/*
 Gets the stream's next wave. TREEFOLD_AGAIN: none arrived in that time. TREEFOLD_OVER: the stream is over, and all its
 waves have been received. The caller owns the wave and must give it to treefold_wave_free. May be called from any
 thread, and from several at a time.
 */
enum treefold_code treefold_front_recv(const struct treefold_front *front,
                                       int64_t timeout_ms,
                                       struct treefold_wave **wave,
                                       struct treefold_error *error);

/*
 Ends a stream at all its nodes. Waves that were received stay valid. No other call on the stream may be running. Null is
 ignored. May be called from any thread.
 */
void treefold_front_close(struct treefold_front *front);

/*
 Gets packet `at` of a wave, counted from 0, as a handle of its own: the caller must give it to treefold_packet_free. Its
 bytes are not copied.
 */
enum treefold_code treefold_wave_packet(const struct treefold_wave *wave,
                                        size_t at,
                                        struct treefold_packet **packet,
                                        struct treefold_error *error);

/*
 Copies the numbers of the endpoints whose packets are in the wave to `endpoints`, ascending, as treefold_packet_i64s copies
 an array.
 */
enum treefold_code treefold_wave_contributors(const struct treefold_wave *wave,
                                              uint32_t *endpoints,
                                              size_t capacity,
                                              size_t *count,
                                              struct treefold_error *error);

/*
 Copies the numbers of the endpoints that are not in the wave to `endpoints`, as treefold_wave_contributors does.
 */
enum treefold_code treefold_wave_missing(const struct treefold_wave *wave,
                                         uint32_t *endpoints,
                                         size_t capacity,
                                         size_t *count,
                                         struct treefold_error *error);

/*
 Gets the reason why an endpoint is not in the wave. The text ends with a zero byte, belongs to the wave and lives as long as
 it does.
 */
enum treefold_code treefold_wave_reason(const struct treefold_wave *wave,
                                        uint32_t endpoint,
                                        const char **reason,
                                        struct treefold_error *error);

/*
 Frees a wave. Packets that were got from it stay valid. Null is ignored. May be called from any thread.
 */
void treefold_wave_free(struct treefold_wave *wave);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TREEFOLD_H */
