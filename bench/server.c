/* server.c -- how quickly the web page gets what it draws, from ten million spans.
 *
 *   server [TRACE]
 *
 * A child writes the trace; then a server runs here as under `opmeter serve`, and requests go to it
 * over its socket, as a browser would send them: the page and everything until the first picture,
 * then pictures of random places at every zoom, all tracks visible. */
#include "server/server.h"
#include "base/alloc.h"
#include "export/export.h"
#include "public/trace/trace.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPANS 10000000
#define TRACKS 12
#define NAMES 400
#define INSIDE 4 /* spans within an operator, each with one inside itself */
#define SAMPLES 1000000
#define WIDTH 1900
#define PICTURES 500
#define QUESTIONS 20

static void die(const char *what, const char *why)
{
    fprintf(stderr, "server: %s: %s\n", what, why);
    exit(1);
}

static void check(int rc, const char *what)
{
    if (rc < 0)
        die(what, opm_status_text(rc));
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of this process, all threads: what waiting for a busy machine does not change. */
static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static str_id intern(struct store *st, const char *fmt, int i)
{
    char text[80];
    str_id id;

    snprintf(text, sizeof(text), fmt, i);
    check(store_cstr(st, text, &id), "store_cstr");
    return id;
}

/* Steps of an irregular length with pauses between them; operators with kernels inside. */
static void fill_track(struct store *st, uint32_t track, size_t n, const uint32_t *site)
{
    struct span_block b;
    int64_t t = track * 1000;
    size_t i = 0;

    check(store_add_span_block(st, track, n, &b), "store_add_span_block");
    while (i + 2 * INSIDE + 1 <= n) {
        int64_t start = t;

        for (int k = 0; k < INSIDE; k++) {
            int64_t dur = 100 + (int64_t)(next_random() % 3000);

            b.ts[i] = t + 30;
            b.dur[i] = dur - 60;
            b.site[i] = site[next_random() % NAMES];
            b.ts[i + 1] = t + 10;
            b.dur[i + 1] = dur - 20;
            b.site[i + 1] = site[next_random() % NAMES];
            i += 2;
            t += dur;
        }
        b.ts[i] = start;
        b.dur[i] = t - start;
        b.site[i++] = site[next_random() % NAMES];
        t += next_random() % 5000 == 0 ? 3000000 : (int64_t)(next_random() % 400);
    }
    for (; i < n; i++) {
        b.ts[i] = t;
        b.dur[i] = 50;
        b.site[i] = site[0];
        t += 100;
    }
}

static void make_trace(const char *path)
{
    uint32_t site[NAMES];
    struct store *st;
    opm_error err;

    check(store_new(&st), "store_new");
    for (int i = 0; i < NAMES; i++) {
        struct site s = { .name = intern(st, "/model/layer.%d/attention/MatMul", i),
                          .cat = intern(st, "op", 0),
                          .layer = intern(st, "framework", 0),
                          .op = OPM_NULL_ID };

        check(store_site(st, &s, &site[i]), "store_site");
    }
    for (int i = 0; i <= TRACKS; i++) {
        struct cell cells[track_col_COUNT] = { 0 };

        cells[track_col_kind] = cell_str(intern(st, i < TRACKS ? "thread" : "counter", 0));
        cells[track_col_name] = cell_str(intern(st, i < TRACKS ? "thread %d" : "memory", i));
        cells[track_col_pid] = cell_i64(1 + i / 4);
        check(store_add(st, TABLE_track, cells, NULL), "store_add");
    }
    for (uint32_t i = 0; i < TRACKS; i++)
        fill_track(st, i, SPANS / TRACKS, site);
    for (int i = 0; i < SAMPLES; i++) {
        struct cell cells[sample_col_COUNT] = { 0 };

        cells[sample_col_ts] = cell_i64((int64_t)i * 1000);
        cells[sample_col_track] = cell_id(TRACKS);
        cells[sample_col_value] = cell_f64((double)(next_random() % 1000000));
        check(store_add(st, TABLE_sample, cells, NULL), "store_add");
    }
    check(store_finish(st), "store_finish");
    if (exporter_find("opm")->write(st, path, &(struct export_options){ 0 }, &err) < 0)
        die("export", err.msg);
    store_free(st);
}

struct client {
    int fd;
    char *answer; /* of the last request, NUL-terminated */
    size_t len, cap;
};

static int port_of(const char *url)
{
    const char *colon = strrchr(url, ':');

    return atoi(colon + 1);
}

static void client_connect(struct client *c, int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = { htonl(INADDR_LOOPBACK) } };
    const void *p = &a;
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, p, sizeof(a)) < 0)
        die("connect", "no connection");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Read until there are at least `need` bytes. */
static void client_fill(struct client *c, size_t need)
{
    while (c->len < need) {
        ssize_t got;

        if (!GROW(c->answer, c->cap, MAX(need, c->len + 65536) + 1))
            die("client", "out of memory");
        got = read(c->fd, c->answer + c->len, c->cap - c->len - 1);
        if (got <= 0)
            die("client", "the server closed the connection");
        c->len += (size_t)got;
        c->answer[c->len] = '\0';
    }
}

/* Seconds until the whole answer to GET path is here; its body to *body. */
static double get(struct client *c, const char *path, const char **body)
{
    char request[400];
    double start = now();
    const char *end, *length;
    size_t head, want;
    int n = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);

    if (write(c->fd, request, (size_t)n) != n)
        die("client", "cannot write");
    c->len = 0;
    do {
        client_fill(c, c->len + 1);
        end = strstr(c->answer, "\r\n\r\n");
    } while (!end);
    head = (size_t)(end - c->answer) + 4;
    length = strcasestr(c->answer, "\r\nContent-Length:");
    if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0 || !length)
        die(path, c->answer);
    want = strtoull(length + strlen("\r\nContent-Length:"), NULL, 10);
    client_fill(c, head + want);
    *body = c->answer + head;
    return now() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static long memory_mb(const char *field)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[200];
    long kb = -1024;

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = strtol(line + strlen(field), NULL, 10);
    if (f)
        fclose(f);
    return kb / 1024;
}

static int64_t number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? strtoll(at + strlen(key), NULL, 10) : 0;
}

static void first_picture(struct client *c, char *id, size_t id_size, int64_t *duration)
{
    static const char *const files[] = { "/", "/app.css", "/app.js", "/api/version" };
    char path[200];
    const char *body;
    double page = 0, listed, open, tracks, picture, cpu = cpu_now();

    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        page += get(c, files[i], &body);
    listed = get(c, "/api/traces", &body);
    snprintf(id, id_size, "%.12s", strstr(body, "\"id\":\"") + 6);
    snprintf(path, sizeof(path), "/api/trace/%s", id);
    open = get(c, path, &body);
    *duration = number_after(body, "\"duration_ns\":");
    snprintf(path, sizeof(path), "/api/trace/%s/data/tracks", id);
    tracks = get(c, path, &body);
    snprintf(path, sizeof(path), "/api/trace/%s/timeline?from=0&to=%lld&width=%d", id,
             (long long)*duration, WIDTH);
    picture = get(c, path, &body);
    printf("first picture   %7.3f s: page %.3f, list %.3f, opening %.3f, tracks %.3f, "
           "timeline %.3f (%zu KB); CPU %.3f s\n",
           page + listed + open + tracks + picture, page, listed, open, tracks, picture,
           c->len >> 10, cpu_now() - cpu);
}

static void print_times(const char *what, double *s, int n)
{
    qsort(s, (size_t)n, sizeof(*s), by_value);
    printf("%-15s %7.1f ms median, %.1f p95, %.1f p99, %.1f longest\n", what, s[n / 2] * 1e3,
           s[n * 95 / 100] * 1e3, s[n * 99 / 100] * 1e3, s[n - 1] * 1e3);
}

static void pictures(struct client *c, const char *id, int64_t duration, bool alone)
{
    double s[PICTURES], cpu[PICTURES], bytes = 0;
    char path[200];
    const char *body;

    for (int i = 0; i < PICTURES; i++) {
        int zoom = (int)(next_random() % 24);
        int64_t range = MAX(duration >> zoom, (int64_t)1000);
        int64_t from = (int64_t)(next_random() % (uint64_t)(duration - range + 1));

        snprintf(path, sizeof(path), "/api/trace/%s/timeline?from=%lld&to=%lld&width=%d", id,
                 (long long)from, (long long)(from + range), WIDTH);
        cpu[i] = cpu_now();
        s[i] = get(c, path, &body);
        cpu[i] = cpu_now() - cpu[i];
        bytes += (double)c->len;
    }
    printf("%d pictures of %.0f KB on average%s\n", PICTURES, bytes / PICTURES / 1024,
           alone ? "" : ", beside a slow query");
    print_times("  answered after", s, PICTURES);
    if (alone)
        print_times("  CPU, with us", cpu, PICTURES);
}

/* One request of each kind before the figures: what it makes for the others is not their time. */
static void ask(struct client *c, const char *what, const char *path, bool prepared)
{
    double s[QUESTIONS];
    const char *body;

    if (!prepared)
        printf("  %-13s %7.1f ms at first\n", what, get(c, path, &body) * 1e3);
    for (int i = 0; i < QUESTIONS; i++)
        s[i] = get(c, path, &body);
    print_times(what, s, QUESTIONS);
}

/* Totals of ranges of time, and a search that finds a tenth of all spans. */
static void questions(struct client *c, const char *id, int64_t duration)
{
    char path[200];

    for (int zoom = 0; zoom <= 8; zoom += 4) {
        int64_t range = duration >> zoom, from = zoom ? duration / 3 : 0;

        snprintf(path, sizeof(path), "/api/trace/%s/totals?from=%lld&to=%lld", id, (long long)from,
                 (long long)(from + range));
        printf("totals of 1/%d of the trace\n", 1 << zoom);
        ask(c, "  totals", path, zoom > 0);
    }
    snprintf(path, sizeof(path), "/api/trace/%s/found?text=LAYER.1&at=4711", id);
    printf("search\n");
    ask(c, "  found", path, false);
    snprintf(path, sizeof(path), "/api/trace/%s/timeline?text=LAYER.1&width=%d", id, WIDTH);
    ask(c, "  picture", path, true);
}

/* Pictures while a query runs that takes as long as it may. */
static void beside_sql(struct client *c, const char *id, int64_t duration, int port)
{
    struct client other = { 0 };
    char request[400];
    int n = snprintf(request, sizeof(request),
                     "GET /api/trace/%s/sql?q=SELECT+count(*)+FROM+span+a,span+b+WHERE+a.dur%%3c"
                     "b.self HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     id);

    client_connect(&other, port);
    if (write(other.fd, request, (size_t)n) != n)
        die("client", "cannot write");
    pictures(c, id, duration, false);
    close(other.fd);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/opmeter-bench-XXXXXX", path[100], id[20];
    const char *paths[] = { argc > 1 ? argv[1] : path };
    struct server_options o = { .paths = paths, .npaths = 1 };
    struct client c = { 0 };
    struct server *s;
    int64_t duration;
    opm_error err;

    if (argc < 2) {
        pid_t child;

        if (!mkdtemp(dir))
            die(dir, "cannot be made");
        snprintf(path, sizeof(path), "%s/trace.opm", dir);
        child = fork();
        if (child == 0) {
            make_trace(path);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    if (server_start(&s, &o, &err) < 0)
        die("server_start", err.msg);
    client_connect(&c, port_of(server_url(s)));
    printf("%d spans on %d tracks, %d samples of a counter\n", SPANS, TRACKS, SAMPLES);
    first_picture(&c, id, sizeof(id), &duration);
    pictures(&c, id, duration, true);
    questions(&c, id, duration);
    printf("memory          %7ld MB, %ld at most\n", memory_mb("VmRSS:"), memory_mb("VmHWM:"));
    beside_sql(&c, id, duration, port_of(server_url(s)));
    close(c.fd);
    mem_free(c.answer);
    server_stop(s);
    if (argc < 2) {
        unlink(path);
        rmdir(dir);
    }
    return 0;
}
