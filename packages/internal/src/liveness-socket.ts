/**
 * The liveness socket: a Unix socket that shows that a process is alive, because the kernel closes it when the process
 * dies.
 */
import { unlink } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { errnoOf } from './errno.ts'

/** Listens for processes that check whether the holder of a lease is alive. */
export function listen(path: string): Promise<Server> {
  const server = createServer()
  return new Promise((listening, failed) => {
    server.once('error', failed)
    // With `exclusive`, a worker of a Node cluster owns the socket itself. Otherwise the primary process would own it,
    // and the socket would outlive the worker.
    server.listen({ path, exclusive: true }, () => listening(server))
  })
}

/** Accepts every connection and keeps it open. Returns a function that closes all of them. */
export function serve(server: Server): () => void {
  const connections = new Set<Socket>()
  server.on('error', () => {})
  server.on('connection', (connection) => {
    connections.add(connection)
    connection.on('error', () => {})
    connection.once('close', () => connections.delete(connection))
    // A connection must be read to notice its end.
    connection.resume()
  })
  return () => {
    server.close()
    for (const connection of connections) connection.destroy()
  }
}

/**
 * Removes the socket file. Returns whether the socket may be closed: a closed socket whose file still exists would mean
 * that the process died, so it must stay open if the file cannot be removed.
 */
export async function remove(path: string): Promise<boolean> {
  try {
    await unlink(path)
    return true
  } catch (error) {
    return errnoOf(error) === 'ENOENT'
  }
}
