/* io.h -- whole files in, streams out; the only place that knows gzip and zstd.
 *
 * Reading: io_map() gives the bytes of a file, mapped when it is plain and unpacked into memory
 * when it is gzip or zstd (by content, not by name), never more than max_bytes.
 * Writing: struct io_out buffers and remembers the first error; check once, at io_out_close(). */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct io_map {
    const uint8_t *data; /* non-NULL even when the file is empty */
    size_t len;
    size_t alloc; /* internal: bytes to unmap */
    bool file;    /* internal: data is the file itself, not memory */
    bool packed;  /* was gzip or zstd */
    bool cut;     /* packed stream ended early or is corrupt; data holds what could be read */
};

#define IO_MAX_BYTES_DEFAULT ((uint64_t)64 << 30)

/* max_bytes 0 means IO_MAX_BYTES_DEFAULT; OPM_ELIMIT beyond it. What reading pipes and unpacking
 * cost is also bounded by the budget of the thread (base/budget.h), or by the default one. Pipes
 * and devices are read to their end. A plain file must not be cut short by others while it is
 * mapped (SIGBUS). Release with io_map_release(). */
int io_map(struct io_map *m, const char *path, uint64_t max_bytes, opm_error *err);
/* The first bytes of a file, unpacked, at most `size`; *len fewer only if there are no more, or no
 * sound ones. */
int io_head(const char *path, void *to, size_t size, size_t *len, opm_error *err);
void io_map_release(struct io_map *m); /* a zeroed or released one is fine */

/* The same in two steps, for those who rather unpack block by block: the file as it is, then what
 * is packed in it in its place (m is released on failure). */
int io_map_packed(struct io_map *m, const char *path, uint64_t max_bytes, opm_error *err);
int io_map_unpack(struct io_map *m, const char *path, uint64_t max_bytes, opm_error *err);
bool io_is_packed(const struct io_map *m);

/* Whether a stream is worth reading, by its first bytes as they are: IO_HEAD_BYTES, fewer only if
 * there are no more. Nonzero, with err filled: no more of it is read. */
#define IO_HEAD_BYTES ((size_t)256 << 10) /* of zstd, a block is at most half of it */
struct io_judge {
    int (*judge)(void *user, const struct io_map *head, opm_error *err);
    void *user;
};
/* As io_map_packed(); a pipe or a device is judged first, a file, which costs nothing, is not. */
int io_map_judged(struct io_map *m, const char *path, uint64_t max_bytes,
                  const struct io_judge *judge, opm_error *err);

/* Block by block. packed belongs to the unpacker from io_unpack_open() on, also when that fails;
 * path must outlive it. max as max_bytes above. One thread at a time. */
struct io_unpack;
int io_unpack_open(struct io_unpack **out, struct io_map *packed, const char *path, uint64_t max,
                   opm_error *err);
/* Fill `to`; *got is less than len only at the end. OPM_ELIMIT beyond max. */
int io_unpack_read(struct io_unpack *u, void *to, size_t len, size_t *got, opm_error *err);
bool io_unpack_cut(const struct io_unpack *u); /* the stream ended early or is corrupt */
/* Packed bytes used up, of *total. */
uint64_t io_unpack_done(const struct io_unpack *u, uint64_t *total);
void io_unpack_close(struct io_unpack *u); /* NULL is fine */

struct io_out {
    int fd;
    bool owned;
    char *path; /* for messages */
    char *tmp;  /* file that is written; becomes target at the close. NULL: no such detour */
    char *target;
    char *data;
    size_t len;
    uint64_t total; /* bytes accepted so far */
    bool fresh;     /* no file of that name was there */
    int err_no;     /* first failure; later writes are ignored */
};

/* path "-" is standard output. A new file replaces an old one only when io_out_close() succeeds. */
int io_out_open(struct io_out *o, const char *path, opm_error *err);
/* Before anything is written: if the file is new, nobody but its owner may read it. */
void io_out_private(struct io_out *o);
int io_out_open_fd(struct io_out *o, int fd, const char *name, opm_error *err); /* not closed */
void io_out_add(struct io_out *o, const void *p, size_t len);
void io_out_adds(struct io_out *o, const char *s);
__attribute__((format(printf, 2, 3))) void io_out_addf(struct io_out *o, const char *fmt, ...);
void io_out_flush(struct io_out *o); /* for those who wait at the other end */
/* Flush, and report the first error of all writes. keep=false discards a half-written file. A
 * zeroed or closed one is fine. */
int io_out_close(struct io_out *o, bool keep, opm_error *err);

#endif
