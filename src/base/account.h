/* account.h -- what the processes of one `opmeter record` tell it in passing: FOLDER/.account.
 *
 * Mapped shared by the recorder of every process, from its start on. A child by fork() has the
 * mapping too, and so can say that it is there, and that it could not record, where it has no right
 * to any file: after setuid() or chroot(). Written with plain atomic additions and stores; whoever
 * reads it checks what a process is now. Header-only: used inside other people's programs. */
#ifndef BASE_ACCOUNT_H
#define BASE_ACCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

#define ACCOUNT_FILE ".account"
#define ACCOUNT_PIDS 1000u

struct account {
    _Atomic uint32_t forks;  /* begun */
    _Atomic uint32_t born;   /* children that came of them */
    _Atomic uint32_t failed; /* processes that could not record */
    _Atomic uint32_t has_reason;
    char reason[240];                  /* of the first of them */
    _Atomic int32_t pid[ACCOUNT_PIDS]; /* children that may record; 0: free, or ended */
};

#endif
