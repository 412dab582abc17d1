/* test_io.c -- plain and packed files in, atomic files out. */
#include "base/io.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#define MIB ((size_t)1 << 20)

struct bytes {
    uint8_t *p;
    size_t len;
};

static struct bytes gzip_of(const void *p, size_t len)
{
    z_stream z = { 0 };
    struct bytes out = { malloc(len + 1024), len + 1024 };

    assert_non_null(out.p);
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)p;
    z.avail_in = (uInt)len;
    z.next_out = out.p;
    z.avail_out = (uInt)out.len;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.len = z.total_out;
    deflateEnd(&z);
    return out;
}

static struct bytes zstd_of(const void *p, size_t len)
{
    struct bytes out = { malloc(ZSTD_compressBound(len)), ZSTD_compressBound(len) };

    ZSTD_CCtx *z = ZSTD_createCCtx();

    assert_non_null(out.p);
    assert_non_null(z);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1); /* as the tool does */
    out.len = ZSTD_compress2(z, out.p, out.len, p, len);
    assert_false(ZSTD_isError(out.len));
    ZSTD_freeCCtx(z);
    return out;
}

typedef struct bytes (*packer)(const void *p, size_t len);
static const packer packers[] = { gzip_of, zstd_of };

/* Text that packs, but not to nothing, so that a cut falls inside it. */
static char *words(size_t len)
{
    char *p = malloc(len);
    uint32_t x = 1;

    assert_non_null(p);
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = "abcdefgh 0123456"[x >> 28];
    }
    return p;
}

static struct bytes joined(struct bytes a, const void *p, size_t len)
{
    a.p = realloc(a.p, a.len + len);
    assert_non_null(a.p);
    memcpy(a.p + a.len, p, len);
    a.len += len;
    return a;
}

static void test_map_plain(void **state)
{
    static const char *const contents[] = { "", "x", "{\"traceEvents\":[]}", "\x1f\x8b",
                                            "\x28\xb5" };
    const char *path = unit_path("plain");
    char *big = words(6 * MIB + 1);
    struct io_map m = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
        unit_write(path, contents[i], strlen(contents[i]));
        assert_int_equal(io_map(&m, path, 0, NULL), 0);
        assert_non_null(m.data);
        assert_int_equal(m.len, strlen(contents[i]));
        assert_memory_equal(m.data, contents[i], m.len);
        assert_false(m.packed);
        assert_false(m.cut);
        io_map_release(&m);
        io_map_release(&m);
    }
    unit_write(path, big, 6 * MIB + 1);
    assert_int_equal(io_map(&m, path, 6 * MIB + 1, NULL), 0);
    assert_memory_equal(m.data, big, 6 * MIB + 1);
    io_map_release(&m);
    free(big);
    assert_int_equal(io_map(&m, "/proc/self/status", 0, NULL), 0); /* has no size to ask for */
    assert_memory_equal(m.data, "Name:", 5);
    io_map_release(&m);
}

static void test_map_errors(void **state)
{
    static const struct {
        const char *path;
        uint64_t max_bytes;
        int rc;
        const char *msg;
    } cases[] = {
        { "/nonexistent/trace", 0, OPM_EIO, "/nonexistent/trace: No such file or directory" },
        { "/tmp", 0, OPM_EIO, "/tmp: is a directory" },
        { "/dev/zero", 1000, OPM_ELIMIT, "/dev/zero: larger than 1000 bytes" },
    };
    const char *path = unit_path("eleven");
    opm_error err;
    struct io_map m = { .len = 77 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(io_map(&m, cases[i].path, cases[i].max_bytes, &err), cases[i].rc);
        assert_string_equal(err.msg, cases[i].msg);
        assert_int_equal(m.len, 77); /* untouched */
    }
    unit_write(path, "hello world", 11);
    assert_int_equal(io_map(&m, path, 10, &err), OPM_ELIMIT);
    assert_int_equal(io_map(&m, path, 11, &err), 0);
    io_map_release(&m);
}

static void *feed_pipe(void *path)
{
    char *text = words(3 * MIB);
    int fd = open(path, O_WRONLY);

    for (size_t at = 0; fd >= 0 && at < 3 * MIB;) {
        ssize_t n = write(fd, text + at, 3 * MIB - at);

        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    free(text);
    return NULL;
}

static void test_map_pipe(void **state)
{
    char path[512];
    char *want = words(3 * MIB);
    struct io_map m = { 0 };
    pthread_t feeder;

    (void)state;
    snprintf(path, sizeof(path), "%s", unit_path("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&feeder, NULL, feed_pipe, path), 0);
    assert_int_equal(io_map(&m, path, 0, NULL), 0);
    pthread_join(feeder, NULL);
    assert_int_equal(m.len, 3 * MIB);
    assert_memory_equal(m.data, want, m.len);
    io_map_release(&m);
    free(want);
}

static void test_map_packed(void **state)
{
    static const size_t sizes[] = { 0, 1, 1000, 1 << 20, (1 << 20) + 1, 2 << 20, 9000000 };
    const char *path = unit_path("packed");

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(packers); k++) {
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
            char *want = words(sizes[i] + 1);
            struct bytes packed = packers[k](want, sizes[i]);
            struct io_map m = { 0 };

            unit_write(path, packed.p, packed.len);
            assert_int_equal(io_map(&m, path, sizes[i] + 1, NULL), 0);
            assert_non_null(m.data);
            assert_true(m.packed);
            assert_false(m.cut);
            assert_int_equal(m.len, sizes[i]);
            assert_memory_equal(m.data, want, sizes[i]);
            io_map_release(&m);
            if (sizes[i] > packed.len) { /* the limit is exact */
                assert_int_equal(io_map(&m, path, sizes[i], NULL), 0);
                io_map_release(&m);
                assert_int_equal(io_map(&m, path, sizes[i] - 1, NULL), OPM_ELIMIT);
            }
            free(packed.p);
            free(want);
        }
    }
}

static void test_map_members(void **state)
{
    const char *path = unit_path("members");

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(packers); k++) {
        struct bytes a = packers[k]("hello ", 6), b = packers[k]("world", 5);
        struct bytes empty = packers[k]("", 0);
        struct io_map m = { 0 };

        a = joined(a, empty.p, empty.len);
        a = joined(a, b.p, b.len);
        unit_write(path, a.p, a.len);
        assert_int_equal(io_map(&m, path, 100000, NULL), 0);
        assert_int_equal(m.len, 11);
        assert_memory_equal(m.data, "hello world", 11);
        assert_false(m.cut);
        io_map_release(&m);
        free(a.p);
        free(b.p);
        free(empty.p);
    }
}

/* A packer may begin with a frame of its own notes, to be skipped. */
static void test_map_skippable(void **state)
{
    const char *path = unit_path("skippable");
    struct bytes frame = zstd_of("Conv", 4), all = { NULL, 0 };
    struct io_map m = { 0 };

    (void)state;
    all = joined(all, "\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
    all = joined(all, frame.p, frame.len);
    unit_write(path, all.p, all.len);
    assert_int_equal(io_map(&m, path, 0, NULL), 0);
    assert_int_equal(m.len, 4);
    assert_memory_equal(m.data, "Conv", 4);
    assert_false(m.cut);
    io_map_release(&m);
    free(frame.p);
    free(all.p);
}

static void test_map_bomb(void **state)
{
    const char *path = unit_path("bomb");
    uint8_t *zeros = calloc(1, 10 * MIB);
    char want[600];

    (void)state;
    assert_non_null(zeros);
    snprintf(want, sizeof(want), "%s: unpacks to more than 1000000 bytes", path);
    for (size_t k = 0; k < ARRAY_SIZE(packers); k++) {
        struct bytes packed = packers[k](zeros, 10 * MIB);
        struct io_map m = { 0 };
        opm_error err;

        assert_true(packed.len < 100000);
        unit_write(path, packed.p, packed.len);
        assert_int_equal(io_map(&m, path, 1000000, &err), OPM_ELIMIT);
        assert_string_equal(err.msg, want);
        assert_null(m.data);
        free(packed.p);
    }
    free(zeros);
}

/* What the other damage is: bytes to keep of the packed file, a byte to flip, bytes to append. */
static void test_map_damaged(void **state)
{
    static const struct {
        int keep_percent; /* of the packed bytes */
        int flip_percent; /* where a byte is inverted, or -1 */
        const char *tail;
        size_t tail_len;
        bool cut;
    } cases[] = {
        { 99, -1, "", 0, true },
        { 50, -1, "", 0, true },
        { 30, -1, "", 0, true },
        { 100, 70, "", 0, true },
        { 100, -1, "junk", 4, true },
        { 100, -1, "\x1f\x8b\x08", 3, true },
        { 100, -1, "\x28\xb5\x2f\xfd", 4, true },
    };
    const char *path = unit_path("damaged");
    size_t len = 2 * MIB;
    char *text = words(len);

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(packers); k++) {
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
            struct bytes packed = packers[k](text, len);
            struct io_map m = { 0 };

            packed.len = packed.len * (size_t)cases[i].keep_percent / 100;
            if (cases[i].flip_percent >= 0)
                packed.p[packed.len * (size_t)cases[i].flip_percent / 100] ^= 0xff;
            packed = joined(packed, cases[i].tail, cases[i].tail_len);
            unit_write(path, packed.p, packed.len);
            assert_int_equal(io_map(&m, path, 4 * MIB, NULL), 0);
            assert_int_equal(m.cut, cases[i].cut);
            assert_true(m.packed);
            assert_true(m.len > len / 5);
            assert_memory_equal(m.data, text, len / 5);
            if (cases[i].tail_len)
                assert_int_equal(m.len, len);
            io_map_release(&m);
            free(packed.p);
        }
    }
    free(text);
}

static void test_map_padding(void **state)
{
    const char *path = unit_path("padding");
    struct bytes packed = gzip_of("hello", 5);
    struct io_map m = { 0 };
    uint8_t zeros[512] = { 0 };

    (void)state;
    packed = joined(packed, zeros, sizeof(zeros));
    unit_write(path, packed.p, packed.len);
    assert_int_equal(io_map(&m, path, 0, NULL), 0);
    assert_int_equal(m.len, 5);
    assert_false(m.cut);
    io_map_release(&m);
    free(packed.p);
}

static void test_map_nothing_left(void **state)
{
    static const struct {
        const char *in;
        size_t len;
    } cases[] = {
        { "\x1f\x8b\x08", 3 },
        { "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10 },
        { "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff", 14 },
        { "\x28\xb5\x2f\xfd", 4 },
        { "\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16 },
        { "\x50\x2a\x4d\x18\xff\xff\xff\xff", 8 },
    };
    const char *path = unit_path("nothing");
    struct io_map m = { 0 };
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        unit_write(path, cases[i].in, cases[i].len);
        assert_int_equal(io_map(&m, path, 0, &err), OPM_EFORMAT);
        assert_non_null(strstr(err.msg, ": cannot unpack "));
        assert_null(m.data);
    }
}

static const char *fail_path;

static int map_fail_path(void)
{
    struct io_map m = { 0 };
    int rc = io_map(&m, fail_path, 0, NULL);

    if (!rc)
        assert_int_equal(m.len, 3000000);
    io_map_release(&m);
    /* Failing to give memory back is not worth an error; the loop must see one all the same. */
    return mem_alloc_failed() ? OPM_ENOMEM : rc;
}

static void test_map_fail(void **state)
{
    char *text = words(3000000);

    (void)state;
    fail_path = unit_path("fail");
    for (size_t k = 0; k < ARRAY_SIZE(packers); k++) {
        struct bytes packed = packers[k](text, 3000000);

        unit_write(fail_path, packed.p, packed.len);
        unit_fail_each(map_fail_path);
        free(packed.p);
    }
    free(text);
}

static void assert_file(const char *path, const void *want, size_t len)
{
    struct io_map m = { 0 };

    assert_int_equal(io_map(&m, path, 0, NULL), 0);
    assert_int_equal(m.len, len);
    assert_memory_equal(m.data, want, len);
    io_map_release(&m);
}

static void test_out_file(void **state)
{
    const char *path = unit_path("out");
    char *big = words(700000);
    struct io_out o = { 0 };
    struct stat st;

    (void)state;
    unit_write(path, "old", 3);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(io_out_open(&o, path, NULL), 0);
    io_out_adds(&o, "new");
    assert_file(path, "old", 3);
    assert_int_equal(io_out_close(&o, false, NULL), 0);
    assert_file(path, "old", 3);
    assert_int_equal(io_out_close(&o, true, NULL), 0); /* closed already */

    assert_int_equal(io_out_open(&o, path, NULL), 0);
    io_out_add(&o, big, 700000);
    io_out_addf(&o, "%d%s", 12, "x");
    for (int i = 0; i < 300000; i++)
        io_out_add(&o, "y", 1);
    io_out_addf(&o, "%0300000d", 1);
    assert_int_equal(o.total, 700000 + 3 + 300000 + 300000);
    assert_file(path, "old", 3);
    assert_int_equal(io_out_close(&o, true, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 1300003);
    assert_int_equal(st.st_mode & 0777, 0640);
    {
        struct io_map m = { 0 };

        assert_int_equal(io_map(&m, path, 0, NULL), 0);
        assert_memory_equal(m.data, big, 700000);
        assert_memory_equal(m.data + 700000, "12xy", 4);
        assert_memory_equal(m.data + 1000002, "y000", 4);
        assert_int_equal(m.data[1300002], '1');
        io_map_release(&m);
    }
    free(big);
}

static void test_out_link(void **state)
{
    const char *path = unit_path("link-target"), *link_path = unit_path("link");
    struct io_out o = { 0 };
    struct stat st;

    (void)state;
    unit_write(path, "old", 3);
    assert_int_equal(symlink("link-target", link_path), 0);
    assert_int_equal(io_out_open(&o, link_path, NULL), 0);
    io_out_adds(&o, "through");
    assert_int_equal(io_out_close(&o, true, NULL), 0);
    assert_file(path, "through", 7);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void test_out_long_name(void **state)
{
    char name[256];
    struct io_out o = { 0 };
    const char *path;

    (void)state;
    memset(name, 'n', 255);
    name[255] = '\0';
    path = unit_path(name);
    assert_int_equal(io_out_open(&o, path, NULL), 0);
    io_out_adds(&o, "x");
    assert_int_equal(io_out_close(&o, true, NULL), 0);
    assert_file(path, "x", 1);
}

static void test_out_errors(void **state)
{
    static const struct {
        const char *path;
        const char *open_msg;  /* NULL: opens */
        const char *close_msg; /* NULL: closes well */
    } cases[] = {
        { "/tmp", "/tmp: Is a directory", NULL },
        { "/nonexistent/x", "/nonexistent/x: No such file or directory", NULL },
        { "/dev/null", NULL, NULL },
        { "/dev/full", NULL, "/dev/full: No space left on device" },
    };
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct io_out o = { 0 };
        int rc = io_out_open(&o, cases[i].path, &err);

        assert_int_equal(rc, cases[i].open_msg ? OPM_EIO : 0);
        if (rc) {
            assert_string_equal(err.msg, cases[i].open_msg);
            continue;
        }
        for (int k = 0; k < 100000; k++)
            io_out_adds(&o, "some text");
        rc = io_out_close(&o, true, &err);
        assert_int_equal(rc, cases[i].close_msg ? OPM_EIO : 0);
        if (rc)
            assert_string_equal(err.msg, cases[i].close_msg);
    }
}

static void test_out_broken_pipe(void **state)
{
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    struct io_out o = { 0 };
    opm_error err;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    assert_int_equal(io_out_open_fd(&o, fds[1], "pager", &err), 0);
    io_out_adds(&o, "text");
    assert_int_equal(io_out_close(&o, true, &err), OPM_EIO);
    assert_string_equal(err.msg, "pager: Broken pipe");
    assert_true(fcntl(fds[1], F_GETFD) >= 0); /* not ours to close */
    close(fds[1]);
    signal(SIGPIPE, old);
}

static void *drain(void *arg)
{
    char chunk[1000];
    size_t *got = arg;
    int fd = (int)*got;
    ssize_t n;

    *got = 0;
    do {
        n = read(fd, chunk, sizeof(chunk));
        *got += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    return NULL;
}

static void test_out_nonblocking(void **state)
{
    struct io_out o = { 0 };
    pthread_t reader;
    size_t got;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    got = (size_t)fds[0];
    assert_int_equal(pthread_create(&reader, NULL, drain, &got), 0);
    assert_int_equal(io_out_open_fd(&o, fds[1], "pipe", NULL), 0);
    for (int i = 0; i < 200000; i++)
        io_out_adds(&o, "0123456789");
    assert_int_equal(io_out_close(&o, true, NULL), 0);
    close(fds[1]);
    pthread_join(reader, NULL);
    close(fds[0]);
    assert_int_equal(got, 2000000);
}

static int write_fail_path(void)
{
    struct io_out o = { 0 };
    int rc = io_out_open(&o, fail_path, NULL);

    if (rc)
        return rc;
    io_out_addf(&o, "%0300000d", 1);
    return io_out_close(&o, true, NULL);
}

static void test_out_fail(void **state)
{
    char command[600];

    (void)state;
    fail_path = unit_path("out-fail");
    unit_fail_each(write_fail_path);
    /* No temporary file is left, by this test or those before. */
    snprintf(command, sizeof(command), "! ls '%s' | grep -q tmp-", unit_path(""));
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_plain),       cmocka_unit_test(test_map_errors),
        cmocka_unit_test(test_map_pipe),        cmocka_unit_test(test_map_packed),
        cmocka_unit_test(test_map_members),     cmocka_unit_test(test_map_skippable),
        cmocka_unit_test(test_map_bomb),        cmocka_unit_test(test_map_damaged),
        cmocka_unit_test(test_map_padding),     cmocka_unit_test(test_map_nothing_left),
        cmocka_unit_test(test_map_fail),        cmocka_unit_test(test_out_file),
        cmocka_unit_test(test_out_link),        cmocka_unit_test(test_out_long_name),
        cmocka_unit_test(test_out_errors),      cmocka_unit_test(test_out_broken_pipe),
        cmocka_unit_test(test_out_nonblocking), cmocka_unit_test(test_out_fail),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
