import { request } from 'node:http'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import {
  peerHeaders,
  peerKeys,
  peerPath,
  newNonce,
  proofOf,
  protocol,
} from '../../src/replication/peer-authentication.ts'

/** A peer that speaks the protocol between replicas and sends anything that the test wants. */
export interface RawPeer {
  readonly socket: Socket
  /** The messages that were received. */
  readonly heard: Record<string, unknown>[]
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>
  send(message: object | string): void
  /** The proof that the other side expects. */
  readonly proof: string
}

export function frameOf(message: object | string): Buffer {
  const body = Buffer.from(typeof message === 'string' ? message : JSON.stringify(message))
  const head = Buffer.alloc(4)
  head.writeUInt32BE(body.length)
  return Buffer.concat([head, body])
}

/** Connects to a replica. Rejects with the status if the connection is refused. */
export function connectRaw(
  address: string,
  { secret = 'secret', clusterId = 'cluster', upgrade = protocol, path = peerPath } = {},
): Promise<RawPeer> {
  const [key] = peerKeys(secret)
  if (!key) throw new Error('no key')
  const caller = newNonce()
  return new Promise((resolve, reject) => {
    const asked = request(address + path, {
      agent: false,
      headers: {
        connection: 'Upgrade',
        upgrade,
        [peerHeaders.cluster]: clusterId,
        [peerHeaders.key]: key.name,
        [peerHeaders.nonce]: caller,
      },
    })
    asked.once('error', reject)
    asked.once('response', (response) => {
      response.resume()
      reject(new Error(`refused: ${response.statusCode}`))
    })
    asked.once('upgrade', (response, socket: Socket, head) => {
      onTestFinished(() => void socket.destroy())
      socket.on('error', () => {})
      // A peer that stays silent is considered gone.
      const sign = setInterval(() => void socket.write(frameOf({ term: 0 })), 1_000)
      socket.once('close', () => clearInterval(sign))
      const heard: RawPeer['heard'] = []
      let rest: Buffer = Buffer.from(head)
      socket.on('data', (chunk: Buffer) => {
        rest = Buffer.concat([rest, chunk])
        while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE()) {
          const length = rest.readUInt32BE()
          heard.push(JSON.parse(rest.toString('utf8', 4, 4 + length)) as Record<string, unknown>)
          rest = rest.subarray(4 + length)
        }
      })
      const called = String(response.headers[peerHeaders.nonce])
      resolve({
        socket,
        heard,
        closed: new Promise((over) => void socket.once('close', () => over())),
        send: (message) => void socket.write(frameOf(message)),
        proof: proofOf('caller', key.key, { clusterId, caller, called }),
      })
    })
    asked.end()
  })
}
