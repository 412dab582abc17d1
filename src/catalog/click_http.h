/* click_http.h -- statements over ClickHouse's HTTP interface, with libcurl. */
#ifndef CATALOG_CLICK_HTTP_H
#define CATALOG_CLICK_HTTP_H

#include "base/buf.h"
#include "base/common.h"
#include <opmeter/opmeter_error.h>

#define CLICK_HOSTS_MAX 64
#define CLICK_CLUSTER_MAX 100

struct click_http {
    void *curl;
    struct buf name;             /* the URL without a password, for messages */
    char *host[CLICK_HOSTS_MAX]; /* "http://127.0.0.1:8123/" */
    size_t nhost, at;            /* the one that answered last */
    char *user, *password, *database, *cluster, *ca;
    long timeout_s, tries;
    bool tls, spoke; /* HTTP came back */
    bool bare;       /* the user may not change settings */
};

/* `h` starts as {0}; click_http_close() it in any case. Nothing is sent yet. */
int click_http_open(struct click_http *h, const char *url, opm_error *err);
void click_http_close(struct click_http *h);

/* What is asked of the server. */
struct click_request {
    const char *sql;
    const void *body; /* rows of an INSERT, gzip; NULL: none */
    size_t len;
    const char *settings; /* "&name=value...", or NULL */
    size_t host;          /* this one; SIZE_MAX: any that answers */
    bool no_database;     /* it may not be there yet */
};

/* How a statement may fail, beside OPM_E*: whether it was done is not known. */
struct click_answer {
    struct buf body;
    int code;    /* ClickHouse's number of the error, 0: none */
    bool unsure; /* the connection broke after it was sent */
    bool again;  /* it may work later */
};

/* One try. 0, or a failure that is said; *a is filled in either case, and released by the caller.
 */
int click_http_try(struct click_http *h, const struct click_request *q, struct click_answer *a,
                   opm_error *err);
/* As often as it may help, for statements that may be done twice. */
int click_http_do(struct click_http *h, const struct click_request *q, struct click_answer *a,
                  opm_error *err);
/* Wait before the next of several tries; false: there was the last one. */
bool click_http_wait(const struct click_http *h, long tried);

#endif
