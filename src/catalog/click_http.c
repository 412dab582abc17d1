/* click_http.c -- see click_http.h. */
#include "catalog/click_http.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/error.h"
#include "catalog/click_text.h"

#ifdef OPMETER_HAVE_CURL
#include <curl/curl.h>
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_S 20L
#define ANSWER_MAX ((size_t)2 << 30)
#define SECRET_MAX 4096
#define SPELLING "'@', '/', ':', '?' and '#' are written %40, %2F, %3A, %3F and %23"
#define PASSWORD_VARIABLE "OPMETER_CLICKHOUSE_PASSWORD"
#define PASSWORD_FILE_VARIABLE "OPMETER_CLICKHOUSE_PASSWORD_FILE"

#ifdef OPMETER_HAVE_CURL

/* -- the address -- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* A part of a URL, %xx resolved; NULL when out of memory. */
static char *part(const char *text, size_t len)
{
    struct buf b = { 0 };
    char *own;

    for (size_t i = 0; i < len; i++) {
        int high = i + 2 < len && text[i] == '%' ? hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

        buf_addc(&b, low >= 0 ? (char)(high * 16 + low) : text[i]);
        i += low >= 0 ? 2 : 0;
    }
    own = b.failed ? NULL : mem_strdup(buf_str(&b));
    buf_release(&b);
    return own;
}

static bool is_name(const char *text)
{
    for (const char *at = text; *at; at++)
        if (!(*at == '_' || (*at >= '0' && *at <= '9') || ((*at | 32) >= 'a' && (*at | 32) <= 'z')))
            return false;
    return text[0] != '\0';
}

static bool is_port(const char *text, size_t len)
{
    size_t digits = strspn(text, "0123456789");
    long port = digits <= 5 ? strtol(text, NULL, 10) : 0;

    return digits == len && port > 0 && port < 65536;
}

static int take_hosts(struct click_http *h, const char *text, size_t len, bool tls, opm_error *err)
{
    while (len) {
        size_t n = strcspn(text, ","), port = 0, colons = 0;
        struct buf url = { 0 };

        n = MIN(n, len);
        for (size_t i = 0; i < n; i++) {
            colons += text[i] == ':';
            port = text[i] == ':' ? i : text[i] == ']' ? 0 : port;
        }
        if (n == 0 || h->nhost == CLICK_HOSTS_MAX)
            return opm__fail(err, OPM_EINVAL, "clickhouse://: %s",
                             n ? "more than 64 hosts" : "a host is missing");
        if (colons > 1 && text[0] != '[')
            return opm__fail(err, OPM_EINVAL,
                             "clickhouse://: an address of IPv6 stands in brackets, as [::1]; in a "
                             "name or password %s",
                             SPELLING);
        if (port && !is_port(text + port + 1, n - port - 1))
            return opm__fail(err, OPM_EINVAL,
                             "clickhouse://: what stands behind a host and ':' is no port; in a "
                             "name or password %s",
                             SPELLING);
        buf_addf(&url, "http%s://%.*s%s/", tls ? "s" : "", (int)n, text,
                 port  ? ""
                 : tls ? ":8443"
                       : ":8123");
        h->host[h->nhost] = url.failed ? NULL : mem_strdup(buf_str(&url));
        buf_release(&url);
        if (!h->host[h->nhost++])
            return opm__fail(err, OPM_ENOMEM, "out of memory");
        text += n;
        len -= n;
        if (len) {
            text++;
            len--;
        }
    }
    return 0;
}

/* A number of seconds or tries, and nothing behind it. */
static bool is_count(const char *text, long *out)
{
    size_t digits = strspn(text, "0123456789");

    *out = digits && digits < 10 && text[digits] == '\0' ? strtol(text, NULL, 10) : 0;
    return *out > 0;
}

/* Servers take any name of a cluster between quotes; one of them is not ours to end. */
static bool is_cluster(const char *text)
{
    return text[0] && strlen(text) <= CLICK_CLUSTER_MAX && !strpbrk(text, "'\\");
}

static int take_option(struct click_http *h, const char *text, size_t len, bool *tls,
                       opm_error *err)
{
    const char *equals = memchr(text, '=', len);
    size_t key = equals ? (size_t)(equals - text) : len;
    char *value = equals ? part(equals + 1, len - key - 1) : NULL;
    int rc = 0;

    if (!value)
        return opm__fail(err, OPM_EINVAL, "clickhouse://: %.*s has no value", (int)MIN(len, 60),
                         text);
#define IS(name) (key == strlen(name) && memcmp(text, name, key) == 0)
    if (IS("cluster") && is_cluster(value)) {
        mem_free(h->cluster);
        h->cluster = value;
        value = NULL;
    } else if (IS("cluster")) {
        rc = opm__fail(err, OPM_EINVAL,
                       "clickhouse://: cluster=%.60s: a name of 1 to %d characters without quotes "
                       "is needed",
                       value, CLICK_CLUSTER_MAX);
    } else if (IS("ca")) {
        mem_free(h->ca);
        h->ca = value;
        value = NULL;
    } else if (IS("tls") || IS("secure")) {
        *tls = strcmp(value, "0") != 0;
    } else if (IS("timeout") || IS("tries")) {
        rc = is_count(value, IS("timeout") ? &h->timeout_s : &h->tries)
                 ? 0
                 : opm__fail(err, OPM_EINVAL,
                             "clickhouse://: %.*s=%.60s: a number from 1 to 999999999 is needed",
                             (int)key, text, value);
    } else if (IS("user") || IS("password")) {
        rc = opm__fail(err, OPM_EINVAL,
                       "clickhouse://: %.*s= is no option: write clickhouse://USER:PASSWORD@HOST, "
                       "or leave the password to %s",
                       (int)key, text, PASSWORD_VARIABLE);
    } else {
        /* What it was set to may be a secret. */
        rc = opm__fail(err, OPM_EINVAL,
                       "clickhouse://: %.*s is no option that it has: cluster=NAME, tls=1, "
                       "ca=FILE, timeout=SECONDS, tries=N",
                       (int)MIN(key, 60), text);
    }
#undef IS
    mem_free(value);
    return rc;
}

/* The first line of the file that the variable names. */
static int read_secret(char **out, const char *path, opm_error *err)
{
    char text[SECRET_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    int failed = errno;

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return opm__fail(err, OPM_EIO, "%s (%s): %s", path, PASSWORD_FILE_VARIABLE,
                         strerror(failed));
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    *out = mem_strdup(text);
    memset(text, 0, sizeof(text));
    return *out ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");
}

static int find_password(struct click_http *h, opm_error *err)
{
    const char *said = environment_get(PASSWORD_VARIABLE),
               *file = environment_get(PASSWORD_FILE_VARIABLE);

    if (h->password)
        return 0;
    if (!said && file && *file)
        return read_secret(&h->password, file, err);
    h->password = mem_strdup(said ? said : "");
    return h->password ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");
}

static int parse_url(struct click_http *h, const char *url, opm_error *err)
{
    bool tls = strncmp(url, "clickhouses:", 12) == 0;
    const char *from = strstr(url, "://") + 3, *query = strchr(from, '?');
    const char *end = query ? query : from + strlen(from),
               *slash = memchr(from, '/', (size_t)(end - from));
    const char *hosts = from, *hosts_end = slash ? slash : end;
    int rc = 0;

    for (const char *at = from; at < hosts_end; at++)
        if (*at == '@')
            hosts = at + 1;
    if (hosts > from) {
        const char *colon = memchr(from, ':', (size_t)(hosts - from));
        const char *user_end = colon ? colon : hosts - 1;

        h->user = part(from, (size_t)(user_end - from));
        if (colon)
            h->password = part(colon + 1, (size_t)(hosts - 1 - colon - 1));
    }
    /* It is of no option, but ends a password that has a '?' in it, which is not to be repeated. */
    if (query && strchr(query, '@'))
        rc = opm__fail(err, OPM_EINVAL, "clickhouse://: in a name or password %s", SPELLING);
    while (query && *query && rc == 0) {
        size_t n = strcspn(query + 1, "&");

        rc = n ? take_option(h, query + 1, n, &tls, err) : 0;
        query += 1 + n;
    }
    if (slash && end > slash + 1 && end[-1] == '/')
        end--;
    h->database = slash && slash + 1 < end ? part(slash + 1, (size_t)(end - slash - 1))
                                           : mem_strdup("default");
    if (!h->user)
        h->user = mem_strdup("default");
    h->tls = tls;
    if (rc == 0)
        rc = take_hosts(h, hosts, (size_t)(hosts_end - hosts), tls, err);
    if (rc == 0 && (!h->user || !h->database))
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    if (rc == 0 && h->nhost == 0)
        rc = opm__fail(err, OPM_EINVAL, "clickhouse://: give clickhouse://HOST:8123/DATABASE");
    if (rc == 0 && strchr(h->database, '@'))
        rc = opm__fail(err, OPM_EINVAL, "clickhouse://: in a name or password %s", SPELLING);
    if (rc == 0 && !is_name(h->database))
        rc = opm__fail(err, OPM_EINVAL,
                       "clickhouse://: '%.60s' is no name of a database: letters, digits and _",
                       h->database);
    buf_addf(&h->name, "clickhouse%s://%.*s/%s", tls ? "s" : "", (int)(hosts_end - hosts), hosts,
             h->database ? h->database : "");
    return rc;
}

#endif

bool click_http_wait(const struct click_http *h, long tried)
{
    long ms = MIN(100L << MIN(tried, 6), 5000L);
    struct timespec wait = { ms / 1000, ms % 1000 * 1000000 };

    if (tried >= h->tries)
        return false;
    nanosleep(&wait, NULL);
    return true;
}

int click_http_do(struct click_http *h, const struct click_request *q, struct click_answer *a,
                  opm_error *err)
{
    int rc;

    for (long tried = 1;; tried++) {
        rc = click_http_try(h, q, a, err);
        if (rc == 0 || !a->again || !click_http_wait(h, tried))
            return rc;
    }
}

#ifdef OPMETER_HAVE_CURL

/* libcurl is loaded when a server is asked for, not with every opmeter: it and what it needs take
 * longer to load than most commands run. */
#define CURL_FUNCTIONS(X) \
    X(curl_global_init)   \
    X(curl_easy_init)     \
    X(curl_easy_cleanup)  \
    X(curl_easy_reset)    \
    X(curl_easy_setopt)   \
    X(curl_easy_perform)  \
    X(curl_easy_getinfo)  \
    X(curl_easy_strerror) \
    X(curl_easy_escape)   \
    X(curl_free)          \
    X(curl_slist_append)  \
    X(curl_slist_free_all)

/* Its header checks types by macros of these names. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
static struct {
    void *library;
#define X(name) __typeof__(name) *name;
    CURL_FUNCTIONS(X)
#undef X
} lib;

static int load_curl(opm_error *err)
{
    static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so" };
    bool all = true;

    for (size_t i = 0; i < ARRAY_SIZE(names) && !lib.library; i++)
        lib.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib.library)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "clickhouse:// needs libcurl, which is not installed (Debian's package is "
                         "libcurl4)");
#define X(name)                                                 \
    *(void **)(uintptr_t)&lib.name = dlsym(lib.library, #name); \
    all &= lib.name != NULL;
    CURL_FUNCTIONS(X)
#undef X
    return all ? 0
               : opm__fail(err, OPM_EUNSUPPORTED, "clickhouse://: libcurl is too old to be used");
}

int click_http_open(struct click_http *h, const char *url, opm_error *err)
{
    int rc;

    h->timeout_s = 300;
    h->tries = 5;
    rc = parse_url(h, url, err);
    if (rc == 0)
        rc = find_password(h, err);
    if (rc == 0)
        rc = load_curl(err);
    if (rc == 0 && lib.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        h->curl = lib.curl_easy_init();
    if (rc == 0 && !h->curl)
        rc = opm__fail(err, OPM_ENOMEM, "libcurl cannot be started");
    return rc;
}

void click_http_close(struct click_http *h)
{
    if (h->curl)
        lib.curl_easy_cleanup(h->curl);
    for (size_t i = 0; i < h->nhost; i++)
        mem_free(h->host[i]);
    if (h->password)
        memset(h->password, 0, strlen(h->password));
    mem_free(h->user);
    mem_free(h->password);
    mem_free(h->database);
    mem_free(h->cluster);
    mem_free(h->ca);
    buf_release(&h->name);
    *h = (struct click_http){ 0 };
}

static size_t take_bytes(char *bytes, size_t size, size_t n, void *user)
{
    struct click_answer *a = user;

    buf_add(&a->body, bytes, size * n);
    return a->body.failed ? 0 : size * n;
}

/* What the server says, in one line. */
static void say_error(const struct click_http *h, struct click_answer *a, long status,
                      opm_error *err)
{
    const char *body = buf_str(&a->body);
    struct click_exception e = click_exception_read(body);

    if (!e.code) {
        e.text = body;
        e.len = strcspn(body, "\r\n");
    }
    /* Its disk may be full in the midst of a file, too. */
    a->code = e.code && (strstr(body, "errno: 28,") || strstr(body, "No space left on device"))
                  ? 243
                  : e.code;
    switch (a->code) {
    case 192: /* unknown user */
    case 193: /* wrong password */
    case 194: /* password needed */
    case 516: /* either, in later versions */
        opm__fail(
            err, OPM_EIO,
            "%s refuses user '%s': wrong name or password (%s or %s has it, or user:password@ "
            "in the URL)",
            buf_str(&h->name), h->user, PASSWORD_VARIABLE, PASSWORD_FILE_VARIABLE);
        break;
    case 243:
        opm__fail(err, OPM_EIO, "%s has no space left on its disk; what was added before stays",
                  buf_str(&h->name));
        break;
    default:
        opm__fail(err, a->code == 62 || a->code == 47 ? OPM_EINVAL : OPM_EIO, "%s: %.*s%s",
                  buf_str(&h->name), e.len ? (int)MIN(e.len, (size_t)300) : 40,
                  e.len ? e.text : "it gives no reason",
                  a->code         ? ""
                  : status == 401 ? " (wrong name or password?)"
                                  : "");
    }
    /* Too many parts, queries or connections, or another server of the cluster is not there. */
    a->again = a->code == 252 || a->code == 202 || a->code == 209 || a->code == 210 ||
               a->code == 279 || a->code == 243 || (!a->code && status >= 500);
    a->unsure = a->code == 209 || a->code == 210 || (!a->code && status >= 500);
}

/* Was there a connection, one from before too, and over TLS an agreement, before time ran out? */
static bool is_connected(struct click_http *h)
{
    double at_s = 0;

    lib.curl_easy_getinfo(h->curl, CURLINFO_PRETRANSFER_TIME, &at_s);
    return at_s > 0;
}

static int say_broken(struct click_http *h, CURLcode code, const char *more, struct click_answer *a,
                      opm_error *err)
{
    const char *name = buf_str(&h->name), *why = more[0] ? more : lib.curl_easy_strerror(code);

    a->again = code != CURLE_SSL_CERTPROBLEM && code != CURLE_PEER_FAILED_VERIFICATION &&
               code != CURLE_SSL_CACERT_BADFILE && code != CURLE_URL_MALFORMAT;
    why += strspn(why, " ");
    a->unsure = code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST && a->again;
    if (a->body.failed)
        return opm__fail(err, OPM_ELIMIT, "%s: the answer is larger than 2 GiB: ask for less",
                         name);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return opm__fail(err, OPM_EIO,
                         "%s: its certificate is refused: %s (ca=FILE in the URL names a file with "
                         "the certificate of who signed it)",
                         name, why);
    if (code == CURLE_SSL_CACERT_BADFILE)
        return opm__fail(err, OPM_EIO, "%s: no certificate can be read from ca=%s", name,
                         h->ca ? h->ca : "the system's");
    if (code == CURLE_SSL_CONNECT_ERROR)
        return opm__fail(err, OPM_EIO,
                         "%s cannot be reached by TLS: %s (without TLS it is clickhouse://)", name,
                         why);
    if ((code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR) && !h->tls && !h->spoke)
        return opm__fail(err, OPM_EIO,
                         "%s cannot be reached: %s (if it speaks TLS: clickhouses://)", name, why);
    if (code == CURLE_OPERATION_TIMEDOUT && !is_connected(h))
        return opm__fail(err, OPM_EIO, "%s cannot be reached%s: no answer for %ld s%s", name,
                         h->tls ? " by TLS" : "", MIN(h->timeout_s, CONNECT_S),
                         h->tls ? " (without TLS it is clickhouse://)" : "");
    if (code == CURLE_OPERATION_TIMEDOUT)
        return opm__fail(err, OPM_EIO,
                         "%s has not answered for %ld s (timeout=SECONDS in the URL allows more)",
                         name, h->timeout_s);
    return opm__fail(err, OPM_EIO, "%s cannot be reached: %s", name, why);
}

static int set_up(struct click_http *h, const struct click_request *q, const char *url,
                  struct curl_slist **headers)
{
    CURL *c = h->curl;

    lib.curl_easy_reset(c);
    lib.curl_easy_setopt(c, CURLOPT_URL, url);
    lib.curl_easy_setopt(c, CURLOPT_PROXY, "");
    lib.curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    lib.curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    lib.curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, MIN(h->timeout_s, CONNECT_S));
    lib.curl_easy_setopt(c, CURLOPT_TIMEOUT, h->timeout_s);
    lib.curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    lib.curl_easy_setopt(c, CURLOPT_USERNAME, h->user);
    lib.curl_easy_setopt(c, CURLOPT_PASSWORD, h->password);
    lib.curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "gzip");
    if (h->ca)
        lib.curl_easy_setopt(c, CURLOPT_CAINFO, h->ca);
    lib.curl_easy_setopt(c, CURLOPT_POST, 1L);
    lib.curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->body ? q->body : q->sql);
    lib.curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)(q->body ? q->len : strlen(q->sql)));
    *headers = lib.curl_slist_append(NULL, "Expect:");
    if (*headers && q->body)
        *headers = lib.curl_slist_append(*headers, "Content-Encoding: gzip");
    lib.curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
    lib.curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_bytes);
    return *headers ? 0 : OPM_ENOMEM;
}

static int send_to(struct click_http *h, size_t host, const struct click_request *q,
                   struct click_answer *a, opm_error *err)
{
    char more[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    struct buf url = { 0 };
    long status = 0;
    CURLcode code;
    int rc;

    buf_clear(&a->body);
    a->body.max = ANSWER_MAX;
    a->code = 0;
    a->again = a->unsure = false;
    buf_addf(&url, "%s?wait_end_of_query=1", h->host[host]);
    if (!q->no_database)
        buf_addf(&url, "&database=%s", h->database);
    if (!h->bare)
        buf_addf(&url, "&enable_http_compression=1%s", q->settings ? q->settings : "");
    if (q->body) {
        char *sql = lib.curl_easy_escape(h->curl, q->sql, 0);

        buf_addf(&url, "&query=%s", sql ? sql : "");
        url.failed |= !sql;
        lib.curl_free(sql);
    }
    rc = url.failed ? OPM_ENOMEM : set_up(h, q, buf_str(&url), &headers);
    if (rc < 0) {
        opm__fail(err, rc, "out of memory");
    } else {
        lib.curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, a);
        lib.curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, more);
        code = lib.curl_easy_perform(h->curl);
        lib.curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
        h->spoke |= status > 0;
        if (code != CURLE_OK) {
            rc = say_broken(h, code, more, a, err);
        } else if (status != 200) {
            say_error(h, a, status, err);
            rc = OPM_EIO;
        }
    }
    lib.curl_slist_free_all(headers);
    buf_release(&url);
    return rc;
}

int click_http_try(struct click_http *h, const struct click_request *q, struct click_answer *a,
                   opm_error *err)
{
    int rc;

    if (q->host != SIZE_MAX) {
        rc = send_to(h, q->host, q, a, err);
    } else {
        rc = send_to(h, h->at, q, a, err);
        /* Others of a cluster do as well, but not for what may have been done. */
        for (size_t i = 1; rc < 0 && a->again && !a->unsure && !a->code && i < h->nhost; i++) {
            h->at = (h->at + 1) % h->nhost;
            rc = send_to(h, h->at, q, a, err);
        }
    }
    /* A user that may only read may not change settings either, and then needs none of them. */
    if (rc < 0 && a->code == 164 && strstr(buf_str(&a->body), "setting") && !h->bare && !q->body) {
        h->bare = true;
        rc = click_http_try(h, q, a, err);
    }
    return rc;
}

#else

int click_http_open(struct click_http *h, const char *url, opm_error *err)
{
    (void)h, (void)url;
    return opm__fail(err, OPM_EUNSUPPORTED,
                     "clickhouse://: this opmeter was built without libcurl (Debian's package is "
                     "libcurl4-openssl-dev)");
}

void click_http_close(struct click_http *h)
{
    (void)h;
}

int click_http_try(struct click_http *h, const struct click_request *q, struct click_answer *a,
                   opm_error *err)
{
    (void)h, (void)q, (void)a;
    return opm__fail(err, OPM_EUNSUPPORTED, "built without libcurl");
}

#endif
