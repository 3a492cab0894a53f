/** A Unix socket that shows that a process lives: the kernel closes it when the process dies. */
import { unlink } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { errnoOf } from './errno.ts'

/** Listens for processes that ask whether the holder of a lease lives. */
export function listen(path: string): Promise<Server> {
  const server = createServer()
  return new Promise((listening, failed) => {
    server.once('error', failed)
    // Exclusive: in a cluster the worker itself must own the socket, or it would outlive the worker.
    server.listen({ path, exclusive: true }, () => listening(server))
  })
}

/** Takes every connection and keeps it. Gives a function that closes all. */
export function serve(server: Server): () => void {
  const connections = new Set<Socket>()
  server.on('error', () => {})
  server.on('connection', (connection) => {
    connections.add(connection)
    connection.on('error', () => {})
    connection.once('close', () => connections.delete(connection))
    // Reading is how the end of a connection is noticed.
    connection.resume()
  })
  return () => {
    server.close()
    for (const connection of connections) connection.destroy()
  }
}

/** A socket that is closed but still there means death: then it must stay open. Gives whether it may be closed. */
export async function remove(path: string): Promise<boolean> {
  try {
    await unlink(path)
    return true
  } catch (error) {
    return errnoOf(error) === 'ENOENT'
  }
}
