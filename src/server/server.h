/* server.h -- the HTTP server behind `opmeter serve`; docs/http.md is what it answers.
 *
 * Runs in threads of its own from server_start() to server_stop(). Nothing is written anywhere, but
 * for a temporary file while a trace is exported, and copies of what is dropped on the page, which
 * server_stop() removes. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct server;

struct server_options {
    const char *const *paths; /* traces, folders with traces, and databases of jobs */
    size_t npaths;
    const char *host; /* address or name to listen on; NULL: this machine alone */
    int port;         /* 0: any that is free */
    /* What reading a trace may cost, as in opm_open_options; 0: the defaults. */
    uint64_t max_unpacked, max_memory, max_seconds;
    const char *const *captures; /* of graphs, for every trace, as there; valid to the end */
    size_t ncaptures;
};

/* OPM_EUNSUPPORTED where opmeter was built without libmicrohttpd. */
int server_start(struct server **out, const struct server_options *o, opm_error *err);
const char *server_url(const struct server *s); /* "http://127.0.0.1:8080/" */
bool server_is_local(const struct server *s);   /* only programs of this machine can ask */
/* Whether a folder has more entries than are looked at; right after the start. */
bool server_is_cut(const struct server *s);
void server_stop(struct server *s); /* NULL is fine */

#endif
