/* listen.c -- see listen.h. */
#include "server/listen.h"

#include "base/error.h"
#include "base/system.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

static bool is_loopback(const struct sockaddr *a)
{
    const void *p = a;

    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)p)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)p)->sin6_addr);
}

static bool is_any(const struct sockaddr *a)
{
    const void *p = a;

    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)p)->sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)p)->sin6_addr);
}

static int fail_listen(const char *host, int port, int number, opm_error *err)
{
    if (number == EADDRINUSE)
        return opm__fail(
            err, OPM_EBUSY,
            "port %d is in use, perhaps by another opmeter; choose one with --port, or "
            "--port 0 for any that is free",
            port);
    if (number == EACCES)
        return opm__fail(err, OPM_EIO, "port %d is not for ordinary users; choose one above 1023",
                         port);
    return opm__fail(err, OPM_EIO, "%s, port %d: %s", host, port, strerror(number));
}

static void set_url(struct listening *l, const struct sockaddr *a, socklen_t len)
{
    char address[100] = "127.0.0.1", port[10] = "";
    bool v6 = a->sa_family == AF_INET6;

    getnameinfo(a, len, address, sizeof(address), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    if (is_any(a)) { /* not an address that a browser could use */
        snprintf(address, sizeof(address), "%s", "127.0.0.1");
        v6 = false;
    }
    snprintf(l->url, sizeof(l->url), v6 ? "http://[%s]:%s/" : "http://%s:%s/", address, port);
}

static int open_socket(struct listening *l, const struct addrinfo *a)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    void *p = &bound;
    int one = 1;

    l->fd = system_socket(a->ai_family);
    if (l->fd < 0)
        return errno;
    /* A port of which old connections linger is free; one that somebody listens on is not. */
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(l->fd, a->ai_addr, a->ai_addrlen) < 0 || listen(l->fd, BACKLOG) < 0 ||
        getsockname(l->fd, p, &len) < 0) {
        int number = errno;

        close(l->fd);
        return number;
    }
    l->loopback = is_loopback(p);
    set_url(l, p, len);
    return 0;
}

int listen_on(struct listening *out, const char *host, int port, opm_error *err)
{
    const char *name = host ? host : "127.0.0.1";
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *list;
    char service[12];
    int rc;

    snprintf(service, sizeof(service), "%d", port);
    rc = getaddrinfo(name, service, &hints, &list);
    if (rc)
        return opm__fail(err, OPM_EIO, "%s: %s", name, gai_strerror(rc));
    rc = open_socket(out, list);
    freeaddrinfo(list);
    return rc ? fail_listen(name, port, rc, err) : 0;
}
