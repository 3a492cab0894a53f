// Preloaded into a replica. It routes connections through proxies and lets a test block the replica. TENURE_DETOURS
// maps ports to the ports of the proxies that replace them: {"7071": 9071}.
import { Socket } from 'node:net'

const detours = new Map(Object.entries(JSON.parse(process.env['TENURE_DETOURS'] ?? '{}')))
const { connect } = Socket.prototype
Socket.prototype.connect = /** @type {typeof connect} */ (
  /** @this {Socket} @param {any[]} args */
  function (...args) {
    // Node's own clients pass the normalized arguments as a nested array.
    const [first] = Array.isArray(args[0]) ? args[0] : args
    const detour = detours.get(String(first?.port))
    if (detour !== undefined) first.port = detour
    return connect.apply(this, /** @type {Parameters<typeof connect>} */ (args))
  }
)

// Blocks the event loop for this many milliseconds, in the middle of everything that has arrived at once.
const commands = new Socket({ fd: 3 })
commands.on('data', (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(ms)))
commands.on('error', () => {})
commands.unref()
