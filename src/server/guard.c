/* guard.c -- see guard.h. */
#include "server/guard.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_ROOM 256

enum address { NO_ADDRESS, OTHER_ADDRESS, LOOPBACK_ADDRESS };

static enum address address_of(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, name, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127 ? LOOPBACK_ADDRESS : OTHER_ADDRESS;
    if (inet_pton(AF_INET6, name, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) ? LOOPBACK_ADDRESS : OTHER_ADDRESS;
    return NO_ADDRESS;
}

/* The name in "name:port" or "[address]:port" to `out`. Any port will do: it may be forwarded. */
static bool name_of(const char *host, char out[NAME_ROOM])
{
    bool bracket = *host == '[';
    const char *from = host + bracket;
    size_t len = strcspn(from, bracket ? "]" : ":");
    const char *rest = from + len;

    if (len == 0 || len >= NAME_ROOM || (bracket && *rest++ != ']'))
        return false;
    if (*rest == ':') {
        size_t digits = strspn(rest + 1, "0123456789");

        rest += 1 + digits;
        if (digits == 0 || digits > 5)
            return false;
    }
    memcpy(out, from, len);
    out[len] = '\0';
    return !*rest;
}

static bool is_this_machine(const char *name)
{
    char own[NAME_ROOM] = "";

    return gethostname(own, sizeof(own) - 1) == 0 && strcasecmp(name, own) == 0;
}

/* Names that no other site can make lead here. Of those that anyone could (a name server answers
 * what it likes), only the machine's own. */
static bool host_is_ours(const struct guard *g, const char *host)
{
    char name[NAME_ROOM];
    enum address address;

    if (!name_of(host, name))
        return false;
    address = address_of(name);
    if (strcasecmp(name, "localhost") == 0 || address == LOOPBACK_ADDRESS)
        return true;
    if (g->host && strcasecmp(name, g->host) == 0)
        return true;
    return !g->loopback && (address != NO_ADDRESS || is_this_machine(name));
}

static bool origin_is_host(const char *origin, const char *host)
{
    return strncasecmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0;
}

static int check_origin(const struct guard *g, const struct guard_request *r, opm_error *err)
{
    if (!r->host) {
        opm__fail(err, OPM_EINVAL, "the request has no Host header");
        return 400;
    }
    if (!host_is_ours(g, r->host)) {
        opm__fail(err, OPM_EINVAL, "this server does not answer to the name '%.100s'", r->host);
        return 403;
    }
    if (r->origin && !origin_is_host(r->origin, r->host)) {
        opm__fail(err, OPM_EINVAL, "pages of '%.100s' may not ask this server", r->origin);
        return 403;
    }
    if (r->data && r->fetch_site && strcmp(r->fetch_site, "same-origin") != 0 &&
        strcmp(r->fetch_site, "none") != 0) {
        opm__fail(err, OPM_EINVAL, "pages of other sites may not ask this server");
        return 403;
    }
    return 0;
}

int guard_check(const struct guard *g, const struct guard_request *r, opm_error *err)
{
    int status = check_origin(g, r, err);

    if (status == 0 && strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0) {
        opm__fail(err, OPM_EINVAL, "only GET and HEAD are answered");
        status = 405;
    }
    return status;
}

int guard_check_drop(const struct guard *g, const struct guard_request *r, opm_error *err)
{
    int status = check_origin(g, r, err);

    if (status == 0 && strcmp(r->method, "PUT") != 0) {
        opm__fail(err, OPM_EINVAL, "a file is brought with PUT");
        status = 405;
    } else if (status == 0 && !g->loopback) {
        opm__fail(err, OPM_EINVAL,
                  "other machines can reach this server, so it takes no files; name the trace "
                  "when starting 'opmeter serve'");
        status = 403;
    }
    return status;
}
