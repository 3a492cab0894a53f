/**
 * The guard process. It reads from standard input, which is a pipe to the process that it guards, and exits when it has
 * released the leases of that process. Internal: the library starts it for `releaseOnCrash`.
 */
import { openStore } from '../stores/index.ts'
import { GuardServer } from './serve-guard.ts'

const guard = new GuardServer(process.stdin, { open: (url) => openStore(url) })
// A terminal or a service manager signals the whole process group or control group. While the pipe is open, the guarded
// process may still be alive, and this process must outlive it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => guard.terminate())
await guard.done
process.exit(0)
