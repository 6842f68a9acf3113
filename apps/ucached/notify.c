/* SPDX-License-Identifier: BSD-3-Clause */
/* One datagram to the service manager; see notify.h. */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int notify_ready(void)
{
    static const char message[] = "READY=1";
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    ssize_t sent;
    socklen_t len;
    int fd, saved;

    if (!name || name[0] == '\0')
        return 0;
    if (strlen(name) >= sizeof(addr.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(addr.sun_path, name, strlen(name));
    if (name[0] == '@')
        addr.sun_path[0] = '\0';
    len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    sent =
        sendto(fd, message, sizeof(message) - 1, MSG_NOSIGNAL, (const struct sockaddr *)&addr, len);
    saved = errno;
    close(fd);
    errno = saved;
    return sent < 0 ? -1 : 0;
}
