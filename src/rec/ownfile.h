/* ownfile.h -- files of ours in a process that is not.
 *
 * A program may close every descriptor that it does not know and then open files of its own: the
 * number that we remember is then one of those, and writing to it destroys them. So the recorder's
 * thread has a table of descriptors to itself (opm__own_table()), which no close(), dup2() or
 * closefrom() of another thread reaches, and which no child inherits; only that thread opens,
 * writes and closes the files of a recording. There is no moment at which a number means two
 * things.
 *
 * Where the kernel has no such tables (Linux before 5.9, or a filter of system calls that refuses
 * close_range()), the descriptors are in the program's table, at high numbers, and each use is
 * preceded by a look at what the number is now, and a write is followed by one: what went elsewhere
 * is written again. Between look and use there remains a moment in which another thread could close
 * and reopen the very number; lower ones are free then, so an open() does not take it. */
#ifndef REC_OWNFILE_H
#define REC_OWNFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Empty: { .fd = -1 }. */
struct ownfile {
    int fd;           /* -1: not open */
    const char *path; /* not owned; absolute, or as the process found it */
    dev_t dev;        /* of what was created; kept when it is closed */
    ino_t ino;
};

enum ownfile_place {
    OWNFILE_HERE,    /* the path leads to it */
    OWNFILE_DELETED, /* the path leads nowhere */
    OWNFILE_REPLACED /* or to something else */
};

/* Give the calling thread, which has no descriptors that it needs, a table of its own, empty.
 * False: it shares that of the program. */
bool opm__own_table(void);
/* The same descriptor at a number that programs do not come to use; the given one if there is none.
 */
int opm__own_high(int fd);
/* Create the file and open it for reading and writing, locked (flock). 0 or an errno: EEXIST if
 * there is one. */
int opm__own_create(struct ownfile *f, const char *path, mode_t mode);
/* All of it, of a file that opm__own_check() found, which is opened again if the program takes its
 * number meanwhile. 0 or an errno. */
int opm__own_write(struct ownfile *f, const void *p, size_t len, uint64_t at);
/* Is the descriptor the file still? Opens the file again if it is not; false if that cannot be, and
 * then for good. *size: its size, may be NULL. */
bool opm__own_check(struct ownfile *f, uint64_t *size);
/* Close it, if it is still ours. In the thread that opened it, or where tables are shared. */
void opm__own_close(struct ownfile *f);
enum ownfile_place opm__own_place(const struct ownfile *f);
/* Remove it, if the path leads to it. */
void opm__own_unlink(const struct ownfile *f);

#endif
