/* test_clients.c -- which connections a server closes, seen from their other ends. */
#include "server/clients.h"
#include "server/watch.h"
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#define LONG_NS ((int64_t)3600 * 1000000000)

/* Limits that nothing reaches, to be lowered one by one. */
static const struct clients_limits wide = {
    .connections = 1000,
    .connections_per_address = 1000,
    .requests = 1000,
    .requests_per_address = 1000,
    .request_ns = LONG_NS,
    .answer_ns = LONG_NS,
    .answer_bytes_per_s = 1,
    .answer_bytes = 1 << 30,
};

struct pair {
    int fd[2]; /* ours, and what the server has */
    struct client *client;
};

static struct sockaddr_in address(const char *text)
{
    struct sockaddr_in a = { .sin_family = AF_INET };

    assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
    return a;
}

static struct pair connect_from(struct clients *c, const char *text)
{
    struct sockaddr_in a = address(text);
    struct pair p;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fd), 0);
    p.client = clients_add(c, p.fd[1], (const struct sockaddr *)&a);
    assert_non_null(p.client);
    return p;
}

static void disconnect(struct clients *c, struct pair *p)
{
    clients_remove(c, p->client);
    close(p->fd[0]);
    close(p->fd[1]);
}

static bool is_closed(const struct pair *p, int wait_ms)
{
    struct pollfd at = { .fd = p->fd[0], .events = POLLRDHUP };

    return poll(&at, 1, wait_ms) > 0 && (at.revents & (POLLRDHUP | POLLHUP));
}

static struct clients *start(const struct clients_limits *limits)
{
    struct clients *c;
    opm_error err;

    assert_int_equal(clients_start(&c, limits, &err), 0);
    return c;
}

/* When full, the one that has waited longest for its client goes, and none that is served. */
static void test_full(void **state)
{
    struct clients_limits limits = wide;
    struct clients *c;
    struct pair p[6];

    (void)state;
    limits.connections = 3;
    c = start(&limits);
    for (int i = 0; i < 3; i++)
        p[i] = connect_from(c, "127.0.0.1");
    assert_true(clients_work(c, p[0].client));
    p[3] = connect_from(c, "127.0.0.1");
    assert_true(is_closed(&p[1], 0));
    assert_false(is_closed(&p[0], 0) || is_closed(&p[2], 0) || is_closed(&p[3], 0));
    /* The answer of one is read, slowly: it goes after those that have not asked. */
    clients_answer(c, p[0].client, 10, 10);
    p[4] = connect_from(c, "127.0.0.1");
    assert_true(is_closed(&p[2], 0));
    assert_false(is_closed(&p[0], 0) || is_closed(&p[3], 0) || is_closed(&p[4], 0));
    assert_true(clients_work(c, p[3].client) && clients_work(c, p[4].client));
    p[5] = connect_from(c, "127.0.0.1");
    assert_true(is_closed(&p[0], 0));
    assert_false(is_closed(&p[5], 0));
    for (int i = 0; i < 6; i++)
        disconnect(c, &p[i]);
    clients_free(c);
}

static void test_deadlines(void **state)
{
    struct clients_limits limits = wide;
    struct clients *c;
    struct pair asking, working, reading, large;

    (void)state;
    limits.request_ns = limits.answer_ns = 1000000;
    c = start(&limits);
    working = connect_from(c, "127.0.0.1");
    reading = connect_from(c, "127.0.0.1");
    large = connect_from(c, "127.0.0.1");
    assert_true(clients_work(c, working.client));
    assert_true(clients_work(c, reading.client));
    assert_true(clients_work(c, large.client));
    clients_answer(c, large.client, 3600, 0); /* has an hour at this pace */
    clients_answer(c, reading.client, 0, 0);
    asking = connect_from(c, "127.0.0.1");
    assert_true(is_closed(&asking, 60000));
    assert_true(is_closed(&reading, 60000));
    assert_false(is_closed(&working, 0));
    assert_false(is_closed(&large, 0));
    clients_answer(c, working.client, 0, 0);
    clients_idle(c, working.client);
    assert_true(is_closed(&working, 60000));
    disconnect(c, &asking);
    disconnect(c, &working);
    disconnect(c, &reading);
    disconnect(c, &large);
    clients_free(c);
}

/* A file that comes in has time as it comes: bytes of it count as those of an answer. */
static void test_receive(void **state)
{
    struct clients_limits limits = wide;
    struct clients *c;
    struct pair coming, asking;

    (void)state;
    limits.request_ns = 500000000; /* until the bytes below are told */
    c = start(&limits);
    coming = connect_from(c, "127.0.0.1");
    clients_receive(c, coming.client, 600); /* a byte a second */
    clients_receive(c, coming.client, UINT64_MAX);
    asking = connect_from(c, "127.0.0.1");
    assert_true(is_closed(&asking, 60000));
    assert_false(is_closed(&coming, 0));
    disconnect(c, &asking);
    disconnect(c, &coming);
    clients_free(c);
}

/* Answers that nobody reads give way to new ones. */
static void test_answers_in_memory(void **state)
{
    struct clients_limits limits = wide;
    struct clients *c;
    struct pair p[3];

    (void)state;
    limits.answer_bytes = 100;
    c = start(&limits);
    for (int i = 0; i < 3; i++)
        p[i] = connect_from(c, "127.0.0.1");
    for (int i = 0; i < 2; i++) {
        assert_true(clients_work(c, p[i].client));
        clients_answer(c, p[i].client, 50, 50);
    }
    assert_false(is_closed(&p[0], 0) || is_closed(&p[1], 0));
    assert_true(clients_work(c, p[2].client));
    clients_answer(c, p[2].client, 1, 1);
    assert_true(is_closed(&p[0], 0));
    assert_false(is_closed(&p[1], 0) || is_closed(&p[2], 0));
    for (int i = 0; i < 3; i++)
        disconnect(c, &p[i]);
    clients_free(c);
}

/* Another machine has a share; this machine, where everybody has one address, has all. */
static void test_addresses(void **state)
{
    struct clients_limits limits = wide;
    struct sockaddr_in far = address("10.0.0.1"), other = address("10.0.0.2");
    struct sockaddr_in here = address("127.0.0.1"), here_too = address("127.1.2.3");
    struct sockaddr_in6 mapped = { .sin6_family = AF_INET6 }, six = { .sin6_family = AF_INET6 };
    struct clients *c;
    struct pair p[4];

    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.0.0.1", &mapped.sin6_addr), 1);
    six.sin6_addr = in6addr_loopback;
    limits.connections_per_address = 2;
    limits.requests_per_address = 1;
    limits.requests = 3;
    c = start(&limits);
    p[0] = connect_from(c, "10.0.0.1");
    assert_true(clients_admit(c, (const struct sockaddr *)&far));
    p[1] = connect_from(c, "10.0.0.1");
    assert_false(clients_admit(c, (const struct sockaddr *)&far));
    assert_false(clients_admit(c, (const struct sockaddr *)&mapped));
    assert_true(clients_admit(c, (const struct sockaddr *)&other));
    p[2] = connect_from(c, "127.0.0.1");
    p[3] = connect_from(c, "127.0.0.1");
    assert_true(clients_admit(c, (const struct sockaddr *)&here));
    assert_true(clients_admit(c, (const struct sockaddr *)&here_too));
    assert_true(clients_admit(c, (const struct sockaddr *)&six));
    assert_true(clients_work(c, p[0].client));
    assert_false(clients_work(c, p[1].client));
    assert_true(clients_work(c, p[2].client));
    assert_true(clients_work(c, p[3].client));
    clients_answer(c, p[0].client, 1, 1);
    assert_true(clients_work(c, p[1].client));
    clients_idle(c, p[0].client);
    assert_false(clients_work(c, p[0].client)); /* three are served */
    disconnect(c, &p[1]);
    assert_true(clients_admit(c, (const struct sockaddr *)&far));
    assert_true(clients_work(c, p[0].client));
    disconnect(c, &p[0]);
    disconnect(c, &p[2]);
    disconnect(c, &p[3]);
    clients_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_answers_in_memory),
        cmocka_unit_test(test_receive),
        cmocka_unit_test(test_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
