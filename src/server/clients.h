/* clients.h -- the connections of a server, so that none is kept by whoever does nothing with it.
 *
 * A request as a whole has a time within which it must be there, and an answer one within which it
 * must be read: to say or read a byte now and then is not enough. Where there are nearly as many
 * connections as can be, or too much memory lies in answers that wait for their readers, the oldest
 * of those that wait for their client is closed in favour of a new one: a request that arrives at
 * once always gets through. Another machine has a share only; of this machine all programs and
 * users have the same address, so that it has no limit of its own. Any thread may ask. */
#ifndef SERVER_CLIENTS_H
#define SERVER_CLIENTS_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>
#include <sys/socket.h>

struct clients;
struct client;

struct clients_limits {
    size_t connections; /* beyond, the oldest that waits for its client is closed */
    size_t connections_per_address;
    size_t requests; /* being worked on */
    size_t requests_per_address;
    int64_t request_ns;          /* until a request is there, from the connection or last answer */
    int64_t answer_ns;           /* until an answer is read, and besides for every */
    uint64_t answer_bytes_per_s; /* of these a second */
    uint64_t answer_bytes;       /* in memory, of all answers that are being read */
};
extern const struct clients_limits clients_default;

/* limits must outlive it. */
int clients_start(struct clients **out, const struct clients_limits *limits, opm_error *err);
void clients_free(struct clients *c); /* after all connections ended; NULL is fine */

/* May one more come from this address? */
bool clients_admit(struct clients *c, const struct sockaddr *from);
/* A connection with its socket, which stays open until clients_remove(). NULL: no memory. */
struct client *clients_add(struct clients *c, int fd, const struct sockaddr *from);
void clients_remove(struct clients *c, struct client *one); /* NULL is fine */

/* A request is there. False: too many are, and it should be refused. */
bool clients_work(struct clients *c, struct client *one);
/* Bytes of a request that is a file have come: there is time for more of it, as for an answer. */
void clients_receive(struct clients *c, struct client *one, uint64_t bytes);
/* Its answer, of which `bytes` lie in memory and `len` are sent, can be read. */
void clients_answer(struct clients *c, struct client *one, uint64_t len, uint64_t bytes);
/* The answer was read, or given up. */
void clients_idle(struct clients *c, struct client *one);

#endif
