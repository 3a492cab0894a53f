import { parseListen, type SocketPath } from '../../shared/arguments/addresses.ts'
import type { Declaration } from '../../shared/arguments/declare.ts'
import { InvalidValue } from '../../shared/arguments/invalid-value.ts'
import { setting } from '../../shared/arguments/settings.ts'
import { candidateStoreSettings, jsonLog } from '../../shared/arguments/store-settings.ts'
import { textOf } from '../../shared/arguments/values.ts'

export const guardSettings = {
  ...candidateStoreSettings,
  listen: setting(
    {
      placeholder: 'socket',
      help: 'the Unix socket to listen on, unix:PATH',
      shownDefault: 'unix:/run/tenure/guard.sock',
    },
    parseSocket,
    { path: '/run/tenure/guard.sock', mode: 0o600 },
  ),
  group: setting(
    {
      placeholder: 'group',
      help: 'the group whose members may also connect, by name or number',
      shownDefault: 'only the same user may connect',
    },
    textOf,
  ),
  json: jsonLog,
}

/** Parses `unix:PATH`. The file mode cannot be chosen, because it decides who may release leases. */
function parseSocket(text: string): SocketPath {
  const address = text.startsWith('unix:') && !text.includes('?') ? parseListen(text) : undefined
  if (!address || !('path' in address)) throw new InvalidValue('must be unix:PATH, such as unix:/run/tenure/guard.sock')
  return address
}

/** `tenure guard`: releases the leases of processes that died. */
export const guardCommand: Declaration = {
  name: 'guard',
  summary: 'Release the leases of processes that died. For containers, where no other process outlives the program.',
  settings: guardSettings,
  examples: [
    'tenure guard --listen unix:/run/tenure/guard.sock --store etcd://10.0.0.1:2379',
    'TENURE_GUARD=/run/tenure/guard.sock node app.js     a program that sets releaseOnCrash',
  ],
  notes: [
    'It must see the processes that it guards in /proc: in Kubernetes, set shareProcessNamespace: true.',
    'Every process that may connect to the socket may release any lease of the store.',
    'On SIGTERM it accepts no more connections, and exits when the processes that it guards have ended. A second signal',
    'ends it immediately, and the leases of these processes expire if they crash.',
    '',
  ],
  exitCodes: '0 on success, 2 for invalid usage, 69 if the socket is unavailable, 128 + n for a second signal',
  run: async (flags) => (await import('./guard.ts')).guard(flags),
}
