/* listen.h -- the socket that a server listens on. */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct listening {
    int fd;
    bool loopback;
    char url[300]; /* where a browser finds it */
};

/* host: address or name, NULL for 127.0.0.1; port 0 picks one. Close fd. */
int listen_on(struct listening *out, const char *host, int port, opm_error *err);

#endif
