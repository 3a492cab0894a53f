/*
 * Lets another process observe every step that this one takes in a directory. When preloaded, it writes a line to file
 * descriptor 3 after each call that changes names below STEPS_BELOW or syncs something there, and returns from the
 * call only after it has read one byte:
 *
 *   make PATH | create PATH | rename FROM TO | remove PATH | sync PATH        (tabs between, a newline at the end)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static int is_below(const char *path) {
  const char *below = getenv("STEPS_BELOW");
  return below && strncmp(path, below, strlen(below)) == 0;
}

static void tell(const char *what, const char *path, const char *to) {
  char line[3 * PATH_MAX], answer;
  int error = errno;
  int size = snprintf(line, sizeof line, "%s\t%s\t%s\n", what, path, to);
  pthread_mutex_lock(&lock);
  if (write(3, line, size) != size || read(3, &answer, 1) != 1) abort();
  pthread_mutex_unlock(&lock);
  errno = error;
}

static int opened(int (*real)(const char *, int, ...), const char *path, int flags, int mode) {
  int is_new = (flags & O_CREAT) && is_below(path) && access(path, F_OK) != 0;
  int fd = real(path, flags, mode);
  if (fd >= 0 && is_new) tell("create", path, "");
  return fd;
}

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return opened(REAL(open), path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return opened(REAL(open64), path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
  int result = REAL(mkdir)(path, mode);
  if (result == 0 && is_below(path)) tell("make", path, "");
  return result;
}

int rename(const char *from, const char *to) {
  int result = REAL(rename)(from, to);
  if (result == 0 && is_below(to)) tell("rename", from, to);
  return result;
}

int unlink(const char *path) {
  int result = REAL(unlink)(path);
  if (result == 0 && is_below(path)) tell("remove", path, "");
  return result;
}

static int synced(int (*real)(int), int fd) {
  char link[64], path[PATH_MAX];
  int result = real(fd);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (result != 0 || size < 0) return result;
  path[size] = 0;
  if (is_below(path)) tell("sync", path, "");
  return result;
}

int fsync(int fd) { return synced(REAL(fsync), fd); }

int fdatasync(int fd) { return synced(REAL(fdatasync), fd); }
