/* account.c -- the recorder's side of base/account.h. */
#include "rec/rec.h"

#include "base/account.h"
#include "base/environment.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct account *account;
static uint32_t own = UINT32_MAX; /* our place in pid[] */

void opm__account_open(void)
{
    const char *parts = environment_get("OPMETER_RECORD_DIR");
    char path[4096];
    struct stat st;
    void *p = MAP_FAILED;
    int fd;

    if (account || !parts ||
        snprintf(path, sizeof(path), "%s/" ACCOUNT_FILE, parts) >= (int)sizeof(path))
        return;
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(*account))
        p = mmap(NULL, sizeof(*account), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        account = p;
}

void opm__account_fork(void)
{
    if (account)
        atomic_fetch_add(&account->forks, 1);
}

void opm__account_child(void)
{
    int32_t none = 0;

    own = UINT32_MAX;
    for (uint32_t i = 0; account && i < ACCOUNT_PIDS && own == UINT32_MAX; i++, none = 0)
        if (atomic_compare_exchange_strong(&account->pid[i], &none, (int32_t)getpid()))
            own = i;
    if (account)
        atomic_fetch_add(&account->born, 1);
}

void opm__account_failed(const char *why)
{
    if (!account)
        return;
    atomic_fetch_add(&account->failed, 1);
    if (!atomic_exchange(&account->has_reason, 1))
        snprintf(account->reason, sizeof(account->reason), "%s", why);
}

void opm__account_end(void)
{
    if (account && own != UINT32_MAX)
        atomic_store(&account->pid[own], 0);
    own = UINT32_MAX;
}
