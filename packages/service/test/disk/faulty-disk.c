/*
 * A disk that loses power or fails, for one file. Preloaded into a process, it keeps the bytes that each write to that
 * file replaced until a sync covers them. Commands are single letters on file descriptor 3:
 *
 *   c  power cut: undo what was not synced, and end the process at once
 *   t  the same, but each unsynced sector of 512 bytes may also have reached the disk, at random
 *   s  syncs fail with EIO; what they should have written is lost, and no later sync brings it to the disk
 *   n  writes fail with ENOSPC
 *   p  synchronous writes (O_DSYNC: the page that points to a commit) fail with EIO, though the bytes are on the disk
 *   h  syncs hang until another command comes
 *   g  the disk works again
 *
 * FAULTY_DISK_FILE: the end of the file name. FAULTY_DISK_SYNC_MS: the duration of a sync. FAULTY_DISK_SEED: the seed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR 512
#define FILES 1024

struct undo {
  struct undo *before;
  off_t at;
  size_t size;
  /* The length of the file before the write. */
  off_t length;
  /* The replaced bytes, with zeros beyond the end of the file. */
  char *bytes;
  long number;
  /* Whether a sync of this write failed. The system then considers it written, although it is not on the disk. */
  int lost;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct undo *newest;
static long writes;
static char watched[FILES], synchronous[FILES];
static volatile char mode = 'g';
static int disk = -1;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fdatasync)(int);
static int (*real_fsync)(int);
static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);
static int (*real_ftruncate)(int, off_t);

static int is_watched(int fd) { return fd >= 0 && fd < FILES && watched[fd]; }

/* Saves the bytes that are about to be replaced. */
static void remember(off_t at, size_t size) {
  struct undo *undo = malloc(sizeof *undo);
  struct stat now;
  undo->before = newest;
  undo->at = at;
  undo->size = size;
  undo->number = ++writes;
  undo->lost = 0;
  undo->bytes = calloc(1, size);
  fstat(disk, &now);
  undo->length = now.st_size;
  pread(disk, undo->bytes, size, at);
  newest = undo;
}

/* Marks these bytes as durable, whatever was lost there before. */
static void cover(off_t at, size_t size) {
  for (struct undo *undo = newest; undo; undo = undo->before) {
    off_t from = at > undo->at ? at : undo->at;
    off_t to = at + (off_t)size < undo->at + (off_t)undo->size ? at + (off_t)size : undo->at + (off_t)undo->size;
    if (from < to) pread(disk, undo->bytes + (from - undo->at), to - from, from);
  }
}

/* Forgets all writes up to `number`, because a sync that began after it has covered them. */
static void forget(long number) {
  struct undo **link = &newest;
  struct stat now;
  fstat(disk, &now);
  while (*link) {
    struct undo *undo = *link;
    if (undo->number > number || undo->lost) {
      if (undo->lost) undo->length = now.st_size;
      link = &undo->before;
      continue;
    }
    *link = undo->before;
    cover(undo->at, undo->size);
    free(undo->bytes);
    free(undo);
  }
}

static void cut_power(int torn) {
  off_t length = -1;
  for (struct undo *undo = newest; undo; undo = undo->before) {
    for (size_t from = 0; from < undo->size; from += SECTOR) {
      size_t size = undo->size - from < SECTOR ? undo->size - from : SECTOR;
      if (!torn || rand() % 2) real_pwrite(disk, undo->bytes + from, size, undo->at + from);
    }
    length = undo->length;
  }
  if (length >= 0 && !torn) real_ftruncate(disk, length);
  kill(getpid(), SIGKILL);
}

static void *listen_for_commands(void *unused) {
  char command;
  (void)unused;
  while (read(3, &command, 1) == 1) {
    if (command == 'c' || command == 't') {
      pthread_mutex_lock(&lock);
      cut_power(command == 't');
    }
    mode = command;
    real_write(3, &command, 1);
  }
  return NULL;
}

__attribute__((constructor)) static void begin(void) {
  pthread_t thread;
  const char *seed = getenv("FAULTY_DISK_SEED");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite");
  real_pwritev = dlsym(RTLD_NEXT, "pwritev");
  real_writev = dlsym(RTLD_NEXT, "writev");
  real_write = dlsym(RTLD_NEXT, "write");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_open = dlsym(RTLD_NEXT, "open");
  real_close = dlsym(RTLD_NEXT, "close");
  real_ftruncate = dlsym(RTLD_NEXT, "ftruncate");
  srand(seed ? atoi(seed) : 1);
  pthread_create(&thread, NULL, listen_for_commands, NULL);
  pthread_detach(thread);
}

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int fd = real_open(path, flags, va_arg(arguments, int));
  va_end(arguments);
  const char *ending = getenv("FAULTY_DISK_FILE");
  size_t size = strlen(path), wanted = ending ? strlen(ending) : 0;
  if (fd >= 0 && fd < FILES) {
    watched[fd] = wanted > 0 && size >= wanted && strcmp(path + size - wanted, ending) == 0;
    synchronous[fd] = (flags & O_DSYNC) != 0;
    if (watched[fd] && disk < 0) disk = real_open(path, O_RDWR);
  }
  return fd;
}

int open64(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int permissions = va_arg(arguments, int);
  va_end(arguments);
  return open(path, flags, permissions);
}

int close(int fd) {
  if (fd >= 0 && fd < FILES) watched[fd] = synchronous[fd] = 0;
  return real_close(fd);
}

static ssize_t written(int fd, const struct iovec *parts, int count, off_t at) {
  size_t size = 0;
  for (int part = 0; part < count; part++) size += parts[part].iov_len;
  if (mode == 'n') {
    errno = ENOSPC;
    return -1;
  }
  pthread_mutex_lock(&lock);
  remember(at, size);
  ssize_t done = real_pwritev(fd, parts, count, at);
  if (synchronous[fd] && done > 0) cover(at, done);
  pthread_mutex_unlock(&lock);
  if (!synchronous[fd] || mode != 'p') return done;
  errno = EIO;
  return -1;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  if (!is_watched(fd)) return real_pwritev(fd, parts, count, at);
  return written(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev(fd, parts, count, at); }

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
  struct iovec part = { (void *)bytes, size };
  if (!is_watched(fd)) return real_pwrite(fd, bytes, size, at);
  return written(fd, &part, 1, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) { return pwrite(fd, bytes, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (!is_watched(fd)) return real_writev(fd, parts, count);
  off_t at = lseek(fd, 0, SEEK_CUR);
  ssize_t done = written(fd, parts, count, at);
  if (done > 0) lseek(fd, done, SEEK_CUR);
  return done;
}

static int synced(int fd, int (*sync)(int)) {
  const char *slow = getenv("FAULTY_DISK_SYNC_MS");
  if (!is_watched(fd)) return sync(fd);
  pthread_mutex_lock(&lock);
  long number = writes;
  pthread_mutex_unlock(&lock);
  if (slow) usleep(1000 * atoi(slow));
  while (mode == 'h') usleep(1000);
  pthread_mutex_lock(&lock);
  int fails = mode == 's';
  for (struct undo *undo = newest; fails && undo; undo = undo->before) undo->lost |= undo->number <= number;
  if (!fails) forget(number);
  pthread_mutex_unlock(&lock);
  if (!fails) return 0;
  errno = EIO;
  return -1;
}

int fdatasync(int fd) { return synced(fd, real_fdatasync); }

int fsync(int fd) { return synced(fd, real_fsync); }
