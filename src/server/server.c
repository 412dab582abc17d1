/* server.c -- see server.h.
 *
 * Every connection has a thread of libmicrohttpd's, so that neither a slow client nor a slow
 * question holds up another. A handler may block; what bounds it is in watch.h and opened.h. */
#include "server/server.h"

#include "base/error.h"

#ifndef OPMETER_HAVE_MICROHTTPD

int server_start(struct server **out, const struct server_options *o, opm_error *err)
{
    (void)out;
    (void)o;
    return opm__fail(err, OPM_EUNSUPPORTED,
                     "this opmeter was built without libmicrohttpd and cannot serve; "
                     "'opmeter report' writes the same pages to a file");
}

const char *server_url(const struct server *s)
{
    (void)s;
    return "";
}

bool server_is_local(const struct server *s)
{
    (void)s;
    return true;
}

bool server_is_cut(const struct server *s)
{
    (void)s;
    return false;
}

void server_stop(struct server *s)
{
    (void)s;
}

#else

#include "base/alloc.h"
#include "base/json_write.h"
#include "server/catalog.h"
#include "server/clients.h"
#include "server/guard.h"
#include "server/listen.h"
#include "server/page.h"
#include "server/routes.h"
#include "server/watch.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CONNECTIONS_MAX 2000        /* more than clients.h has: those that are being closed count */
#define CONNECTION_BYTES (64 << 10) /* the longest request */
#define CONNECTION_STACK (4 << 20)  /* SQL may be deeply nested; only what is used is taken */
#define IDLE_S 60
#define FDS_WANTED (CONNECTIONS_MAX + 200)

struct server {
    struct MHD_Daemon *daemon;
    struct routes routes;
    struct listening listening;
    struct guard guard;
    struct clients *clients;
    bool cut; /* see server_is_cut() */
};

/* What a connection asks for at present. It lives as long as the connection: of a request that
 * turns out to be malformed the library does not tell the end. */
struct request {
    struct target target;
    int rc; /* of parsing it */
    opm_error err;
    bool begun;
    struct client *client;
    struct drop *drop; /* a file that is coming in, or NULL */
    int drop_rc;       /* why it is not, any more */
};

/* The page loads nothing from elsewhere, is in no frame, and tells nobody where it was. */
static const struct {
    const char *name, *value;
} headers[] = {
    { "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
      "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
    { "X-Content-Type-Options", "nosniff" },
    { "X-Frame-Options", "DENY" },
    { "Referrer-Policy", "no-referrer" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
    { "Cache-Control", "no-cache" },
};

/* Queue a response and give it up. */
static enum MHD_Result send_response(struct MHD_Connection *connection, struct MHD_Response *r,
                                     unsigned status, const char *type, const char *allow)
{
    enum MHD_Result result;

    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
        MHD_add_response_header(r, headers[i].name, headers[i].value);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, "Allow", allow);
    result = MHD_queue_response(connection, status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result send_reply(struct server *s, struct request *q,
                                  struct MHD_Connection *connection, struct reply *a)
{
    struct MHD_Response *r;
    enum MHD_Result result;

    clients_answer(s->clients, q->client, a->fd >= 0 || a->data ? a->len : a->body.len,
                   a->body.len);
    if (a->fd >= 0) {
        r = MHD_create_response_from_fd64(a->len, a->fd); /* closes it */
        if (!r)
            close(a->fd);
    } else if (a->data) {
        r = MHD_create_response_from_buffer(a->len, (void *)(uintptr_t)a->data,
                                            MHD_RESPMEM_PERSISTENT);
    } else {
        r = MHD_create_response_from_buffer_with_free_callback(a->body.len, a->body.data, mem_free);
        if (r)
            a->body = (struct buf){ 0 };
    }
    if (r && a->file_name[0]) {
        struct buf disposition = { 0 };

        buf_addf(&disposition, "attachment; filename=\"%s\"", a->file_name);
        if (!disposition.failed)
            MHD_add_response_header(r, "Content-Disposition", buf_str(&disposition));
        buf_release(&disposition);
    }
    result = send_response(connection, r, (unsigned)a->status, a->type,
                           routes_is_drop(&q->target) ? "PUT" : "GET, HEAD");
    buf_release(&a->body);
    return result;
}

static enum MHD_Result send_error(struct server *s, struct request *q,
                                  struct MHD_Connection *connection, int status,
                                  const opm_error *err)
{
    struct reply a = REPLY_INIT;

    reply_error(&a, status, err->msg);
    return send_reply(s, q, connection, &a);
}

static enum MHD_Result on_accept(void *cls, const struct sockaddr *from, socklen_t len)
{
    struct server *s = cls;

    (void)len;
    return clients_admit(s->clients, from) ? MHD_YES : MHD_NO;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *s = cls;
    struct request *q = *context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        const union MHD_ConnectionInfo *from =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

        q = mem_calloc(1, sizeof(*q));
        if (q && fd)
            q->client = clients_add(s->clients, fd->connect_fd, from ? from->client_addr : NULL);
        if (q && !q->client) {
            mem_free(q);
            q = NULL;
        }
        *context = q;
    } else if (q) {
        clients_remove(s->clients, q->client);
        drop_give_up(q->drop);
        target_release(&q->target);
        mem_free(q);
        *context = NULL;
    }
}

/* It came in, or what came of it is of no use. */
static void end_drop(struct request *q)
{
    drop_give_up(q->drop);
    q->drop = NULL;
    q->drop_rc = 0;
}

/* The first line of a request is there. */
static void *on_target(void *cls, const char *uri, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct request *q = info ? info->socket_context : NULL;

    (void)cls;
    if (!q)
        return NULL;
    end_drop(q);
    target_release(&q->target);
    q->rc = target_parse(&q->target, uri, &q->err);
    q->begun = false;
    return q;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct server *s = cls;
    struct request *q = *state;

    (void)connection;
    (void)why;
    if (q) {
        end_drop(q);
        clients_idle(s->clients, q->client);
    }
}

/* Escapes stay as they are: target.c decodes. */
static size_t no_unescape(void *cls, struct MHD_Connection *connection, char *s)
{
    (void)cls;
    (void)connection;
    return strlen(s);
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static int check_request(struct server *s, const struct request *q,
                         struct MHD_Connection *connection, const char *method, opm_error *err)
{
    struct guard_request asked = {
        .method = method,
        .data = q->target.nsegment > 0 && strcmp(q->target.segment[0], "api") == 0,
        .host = header_of(connection, "Host"),
        .origin = header_of(connection, "Origin"),
        .fetch_site = header_of(connection, "Sec-Fetch-Site"),
    };

    return routes_is_drop(&q->target) ? guard_check_drop(&s->guard, &asked, err)
                                      : guard_check(&s->guard, &asked, err);
}

/* The head of a request that brings a file. What is refused is read nevertheless, within the time
 * of a request: the client could not read an answer before. */
static void begin_drop(struct server *s, struct request *q, struct MHD_Connection *connection,
                       const char *method)
{
    const char *length = header_of(connection, "Content-Length");
    opm_error err;

    if (q->rc < 0 || check_request(s, q, connection, method, &err) != 0)
        return;
    q->drop_rc =
        drop_begin(s->routes.dropped, q->target.segment[2],
                   length ? strtoull(length, NULL, 10) : DROP_LENGTH_UNKNOWN, &q->drop, &q->err);
}

static void receive(struct server *s, struct request *q, const char *data, size_t len)
{
    if (!q->drop)
        return;
    clients_receive(s->clients, q->client, len);
    q->drop_rc = drop_write(q->drop, data, len, &q->err);
    if (q->drop_rc < 0) {
        drop_give_up(q->drop);
        q->drop = NULL;
    }
}

static void answer_drop(struct server *s, struct request *q, struct reply *a)
{
    struct drop *f = q->drop;

    q->drop = NULL;
    if (f)
        routes_answer_drop(&s->routes, f, a);
    else
        routes_fail_drop(q->drop_rc, &q->err, a);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    struct server *s = cls;
    struct request *q = *state;
    const union MHD_ConnectionInfo *info;
    struct reply a = REPLY_INIT;
    opm_error err;
    int status;

    (void)url;
    (void)version;
    if (!q)
        return MHD_NO;
    if (!q->begun) { /* answered so early, the connection would not be kept */
        q->begun = true;
        if (routes_is_drop(&q->target))
            begin_drop(s, q, connection, method);
        return MHD_YES;
    }
    if (*upload_size) { /* of a file, or of what has no business here */
        receive(s, q, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    status = check_request(s, q, connection, method, &err);
    if (status)
        return send_error(s, q, connection, status, &err);
    if (q->rc < 0)
        return send_error(s, q, connection, 400, &q->err);
    if (!clients_work(s->clients, q->client)) {
        opm__fail(&err, OPM_EBUSY, "too many requests at once; try again");
        return send_error(s, q, connection, 503, &err);
    }
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (routes_is_drop(&q->target))
        answer_drop(s, q, &a);
    else
        routes_answer(&s->routes, &q->target, info ? info->connect_fd : -1, &a);
    return send_reply(s, q, connection, &a);
}

/* What the limit of open files allows by default is too little for many clients. */
static void raise_fd_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FDS_WANTED)
        return;
    limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)FDS_WANTED);
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int start_daemon(struct server *s, opm_error *err)
{
    const struct MHD_OptionItem options[] = {
        { MHD_OPTION_LISTEN_SOCKET, s->listening.fd, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, NULL },
        { MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL },
        { MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL },
        { MHD_OPTION_THREAD_STACK_SIZE, CONNECTION_STACK, NULL },
        { MHD_OPTION_END, 0, NULL },
    };

    s->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0,
        on_accept, s, on_request, s, MHD_OPTION_ARRAY, options, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_URI_LOG_CALLBACK,
        on_target, NULL, MHD_OPTION_UNESCAPE_CALLBACK, no_unescape, NULL, MHD_OPTION_END);
    return s->daemon ? 0 : opm__fail(err, OPM_EIO, "the HTTP server could not be started");
}

int server_start(struct server **out, const struct server_options *o, opm_error *err)
{
    struct server *s = mem_calloc(1, sizeof(*s));
    struct read_limits limits = { o->max_unpacked, o->max_memory, o->max_seconds, o->captures,
                                  o->ncaptures };
    const char **files = mem_calloc(o->npaths + 1, sizeof(*files)); /* and folders */
    size_t nfile = 0;
    bool cut;
    int rc;

    if (!s || !files) {
        mem_free(files);
        mem_free(s);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < o->npaths; i++)
        if (!fleet_is_url(o->paths[i]))
            files[nfile++] = o->paths[i];
    raise_fd_limit();
    s->listening.fd = -1;
    rc = listen_on(&s->listening, o->host, o->port, err);
    if (rc == 0)
        rc = fleets_new(&s->routes.fleets, o->paths, o->npaths, err);
    if (rc == 0)
        rc = catalog_new(&s->routes.catalog, files, nfile, &limits, err);
    if (rc == 0)
        rc = histories_new(&s->routes.histories, files, nfile, s->routes.catalog, err);
    mem_free(files);
    cut = rc == 0 && catalog_is_cut(s->routes.catalog); /* before requests may scan */
    if (rc == 0)
        rc = watch_start(&s->routes.watch, err);
    if (rc == 0)
        rc = scout_start(&s->routes.scout, s->routes.catalog, err);
    if (rc == 0 && s->listening.loopback)
        rc = dropped_new(&s->routes.dropped, &dropped_default, err);
    if (rc == 0)
        rc = clients_start(&s->clients, &clients_default, err);
    s->guard = (struct guard){ .loopback = s->listening.loopback, .host = o->host };
    if (rc == 0)
        rc = start_daemon(s, err);
    s->cut = cut;
    if (rc < 0)
        server_stop(s);
    else
        *out = s;
    return rc;
}

const char *server_url(const struct server *s)
{
    return s->listening.url;
}

bool server_is_local(const struct server *s)
{
    return s->listening.loopback;
}

bool server_is_cut(const struct server *s)
{
    return s->cut;
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    if (s->routes.catalog)
        catalog_end(s->routes.catalog);
    if (s->routes.watch)
        watch_stop(s->routes.watch);
    if (s->daemon)
        MHD_stop_daemon(s->daemon); /* closes the socket */
    else if (s->listening.fd >= 0)
        close(s->listening.fd);
    clients_free(s->clients);
    scout_stop(s->routes.scout);
    watch_free(s->routes.watch);
    catalog_free(s->routes.catalog);
    histories_free(s->routes.histories);
    fleets_free(s->routes.fleets);
    dropped_free(s->routes.dropped);
    mem_free(s);
}

#endif
