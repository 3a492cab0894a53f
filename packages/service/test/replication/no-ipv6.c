// Preloaded into a service: simulates a kernel without IPv6.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol) {
  static int (*real)(int, int, int);
  if (!real) real = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
  if (domain != AF_INET6) return real(domain, type, protocol);
  errno = EAFNOSUPPORT;
  return -1;
}
