// Preloaded into a replica: a network of its own, and a way to keep it from running.
// TENURE_DETOURS has ports, and those by way of which they are reached: {"7071": 9071}.
import { Socket } from 'node:net'

const detours = new Map(Object.entries(JSON.parse(process.env['TENURE_DETOURS'] ?? '{}')))
const { connect } = Socket.prototype
Socket.prototype.connect = /** @type {typeof connect} */ (
  /** @this {Socket} @param {any[]} args */
  function (...args) {
    // A list within the list, where a client of Node's own has sorted it.
    const [first] = Array.isArray(args[0]) ? args[0] : args
    const detour = detours.get(String(first?.port))
    if (detour !== undefined) first.port = detour
    return connect.apply(this, /** @type {Parameters<typeof connect>} */ (args))
  }
)

// For so many milliseconds nothing runs, in the midst of what has arrived at once.
const commands = new Socket({ fd: 3 })
commands.on('data', (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(ms)))
commands.on('error', () => {})
commands.unref()
