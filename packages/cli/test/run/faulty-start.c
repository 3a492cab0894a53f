/*
 * Starts that hang or fail, preloaded into `tenure run` and its supervisor. FAULTY_START names a folder with these
 * files:
 *
 *   hang       while this file exists, a command hangs in its start: it was forked, but executes nothing yet
 *   no-fork    while this file exists, fork fails as if there were too many processes
 *   hangs      gets a line with the process id of each command that hangs
 *   executed   gets a line with the process id of each command that is executed
 *
 * A process counts as a command if it has TENURE_TERM in its environment.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int (*real_execvp)(const char *, char *const[]);
static pid_t (*real_fork)(void);
static char hang[512], no_fork[512], hangs[512], executed[512];

__attribute__((constructor)) static void begin(void) {
  const char *folder = getenv("FAULTY_START");
  /* Resolve these now, because a forked child of a threaded process must not call the linker. */
  real_execvp = dlsym(RTLD_NEXT, "execvp");
  real_fork = dlsym(RTLD_NEXT, "fork");
  if (!folder) return;
  snprintf(hang, sizeof hang, "%s/hang", folder);
  snprintf(no_fork, sizeof no_fork, "%s/no-fork", folder);
  snprintf(hangs, sizeof hangs, "%s/hangs", folder);
  snprintf(executed, sizeof executed, "%s/executed", folder);
}

static void note(const char *path) {
  char line[32];
  int size = snprintf(line, sizeof line, "%d\n", (int)getpid());
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (write(file, line, size) != size) abort();
  close(file);
}

int execvp(const char *file, char *const arguments[]) {
  if (getenv("TENURE_TERM")) {
    if (access(hang, F_OK) == 0) {
      note(hangs);
      while (access(hang, F_OK) == 0) usleep(2000);
    }
    note(executed);
  }
  return real_execvp(file, arguments);
}

pid_t fork(void) {
  if (access(no_fork, F_OK) != 0) return real_fork();
  errno = EAGAIN;
  return -1;
}
