/* clients.c -- see clients.h. */
#include "server/clients.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "server/watch.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define LOOK_EVERY_NS 250000000
#define SECOND_NS 1000000000

const struct clients_limits clients_default = {
    .connections = 1800,
    .connections_per_address = 200,
    .requests = 1000,
    .requests_per_address = 50,
    .request_ns = (int64_t)30 * SECOND_NS,
    .answer_ns = (int64_t)30 * SECOND_NS,
    .answer_bytes_per_s = 64 << 10,
    .answer_bytes = (uint64_t)512 << 20,
};

enum state { ASKING, WORKING, READING };

struct address {
    uint8_t bytes[16]; /* IPv4 as IPv6 writes it */
    bool local;
};

struct client {
    int fd;
    enum state state;
    bool closed; /* by us; its end comes */
    int64_t since_ns;
    int64_t until_ns;
    uint64_t bytes;
    struct address address;
    struct client *prev, *next; /* the oldest of its state first: entering a state is to the end */
};

struct clients {
    const struct clients_limits *limits;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct client *first, *last;
    size_t n;
    uint64_t bytes;
    bool end;
};

static struct address address_of(const struct sockaddr *from)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    struct address a = { .local = true }; /* a socket without an address is of this machine */

    if (from && from->sa_family == AF_INET) {
        memcpy(a.bytes, mapped, sizeof(mapped));
        memcpy(a.bytes + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from && from->sa_family == AF_INET6) {
        memcpy(a.bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
    } else {
        return a;
    }
    if (memcmp(a.bytes, mapped, sizeof(mapped)) == 0)
        a.local = a.bytes[12] == 127;
    else
        a.local = memcmp(a.bytes, &in6addr_loopback, 16) == 0;
    return a;
}

/* Connections of an address, of those in a state or, -1, of all. */
static size_t count(const struct clients *c, const struct address *a, int state)
{
    size_t n = 0;

    for (const struct client *p = c->first; p; p = p->next)
        n += !p->closed && (state < 0 || (int)p->state == state) &&
             (!a || memcmp(p->address.bytes, a->bytes, sizeof(a->bytes)) == 0);
    return n;
}

static void unlink_client(struct clients *c, struct client *one)
{
    *(one->prev ? &one->prev->next : &c->first) = one->next;
    *(one->next ? &one->next->prev : &c->last) = one->prev;
}

static void link_client(struct clients *c, struct client *one)
{
    one->prev = c->last;
    one->next = NULL;
    *(c->last ? &c->last->next : &c->first) = one;
    c->last = one;
}

static void enter(struct clients *c, struct client *one, enum state state, int64_t limit_ns)
{
    unlink_client(c, one);
    link_client(c, one);
    one->state = state;
    one->since_ns = watch_now_ns();
    one->until_ns = one->since_ns + limit_ns;
}

/* Whoever serves it sees the end of its input, or that nothing can be written any more. */
static void close_client(struct clients *c, struct client *one)
{
    (void)c;
    one->closed = true;
    shutdown(one->fd, SHUT_RDWR);
}

/* Close the oldest that waits for its client: rather one that has not asked. */
static void close_oldest(struct clients *c, bool asking)
{
    struct client *victim = NULL;

    for (struct client *p = c->first; p; p = p->next) {
        if (p->closed || p->state == WORKING || (p->state == ASKING && !asking))
            continue;
        if (!victim || (victim->state == READING && p->state == ASKING))
            victim = p;
        if (victim->state == ASKING || !asking)
            break;
    }
    if (victim)
        close_client(c, victim);
}

static void look(struct clients *c)
{
    int64_t now = watch_now_ns();

    for (struct client *p = c->first; p; p = p->next)
        if (p->state != WORKING && !p->closed && now > p->until_ns)
            close_client(c, p);
}

static void *run(void *arg)
{
    struct clients *c = arg;

    pthread_mutex_lock(&c->mutex);
    while (!c->end) {
        int64_t until = watch_now_ns() + LOOK_EVERY_NS;
        struct timespec ts = { until / SECOND_NS, until % SECOND_NS };

        look(c);
        if (c->first)
            pthread_cond_timedwait(&c->changed, &c->mutex, &ts);
        else
            pthread_cond_wait(&c->changed, &c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

int clients_start(struct clients **out, const struct clients_limits *limits, opm_error *err)
{
    struct clients *c = mem_calloc(1, sizeof(*c));
    int rc;

    if (!c)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    c->limits = limits;
    pthread_mutex_init(&c->mutex, NULL);
    system_wait_init(&c->changed);
    rc = pthread_create(&c->thread, NULL, run, c);
    if (rc) {
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->mutex);
        mem_free(c);
        return opm__fail(err, OPM_EIO, "no thread: %s", strerror(rc));
    }
    *out = c;
    return 0;
}

void clients_free(struct clients *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mutex);
    assert(!c->first);
    c->end = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    mem_free(c);
}

bool clients_admit(struct clients *c, const struct sockaddr *from)
{
    struct address a = address_of(from);
    bool admitted = a.local;

    if (!admitted) {
        pthread_mutex_lock(&c->mutex);
        admitted = count(c, &a, -1) < c->limits->connections_per_address;
        pthread_mutex_unlock(&c->mutex);
    }
    return admitted;
}

struct client *clients_add(struct clients *c, int fd, const struct sockaddr *from)
{
    struct client *one = mem_calloc(1, sizeof(*one));

    if (!one)
        return NULL;
    one->fd = fd;
    one->address = address_of(from);
    pthread_mutex_lock(&c->mutex);
    if (c->n >= c->limits->connections)
        close_oldest(c, true);
    link_client(c, one);
    enter(c, one, ASKING, c->limits->request_ns);
    if (c->n++ == 0)
        pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    return one;
}

void clients_remove(struct clients *c, struct client *one)
{
    if (!one)
        return;
    pthread_mutex_lock(&c->mutex);
    unlink_client(c, one);
    c->n--;
    c->bytes -= one->bytes;
    pthread_mutex_unlock(&c->mutex);
    mem_free(one);
}

bool clients_work(struct clients *c, struct client *one)
{
    bool fine;

    pthread_mutex_lock(&c->mutex);
    fine =
        count(c, NULL, WORKING) < c->limits->requests &&
        (one->address.local || count(c, &one->address, WORKING) < c->limits->requests_per_address);
    if (fine)
        enter(c, one, WORKING, 0);
    pthread_mutex_unlock(&c->mutex);
    return fine;
}

void clients_receive(struct clients *c, struct client *one, uint64_t bytes)
{
    uint64_t rate = c->limits->answer_bytes_per_s;

    pthread_mutex_lock(&c->mutex);
    one->until_ns += (int64_t)(MIN(bytes, rate * 1000) * SECOND_NS / rate);
    pthread_mutex_unlock(&c->mutex);
}

void clients_answer(struct clients *c, struct client *one, uint64_t len, uint64_t bytes)
{
    int64_t more_s = (int64_t)MIN(len / c->limits->answer_bytes_per_s, (uint64_t)INT32_MAX);

    pthread_mutex_lock(&c->mutex);
    c->bytes += bytes;
    one->bytes += bytes;
    enter(c, one, READING, c->limits->answer_ns + more_s * SECOND_NS);
    if (c->bytes > c->limits->answer_bytes)
        close_oldest(c, false);
    pthread_mutex_unlock(&c->mutex);
}

void clients_idle(struct clients *c, struct client *one)
{
    pthread_mutex_lock(&c->mutex);
    c->bytes -= one->bytes;
    one->bytes = 0;
    enter(c, one, ASKING, c->limits->request_ns);
    pthread_mutex_unlock(&c->mutex);
}
