import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { etcd } from './etcd.ts'
import type { Program } from './find-program.ts'
import { requestJson, type JsonResponse } from './https-json.ts'
import { files, kubeApiserver, signClientCertificate, tokenOf, type TokenUser } from './kube-apiserver.ts'
import { programs } from './programs.ts'
import { start, type RunningServer } from './server.ts'

/** All programs of a cluster. */
export const clusterPrograms: readonly Program[] = [programs.etcd, programs.kubeApiserver, programs.openssl]

/** An API server, for tests that must not disturb it. */
export interface ApiServer {
  readonly url: string
  readonly port: number
  readonly directory: string
  /** The CA for the API server's certificate, in PEM. */
  readonly ca: string
  readonly caFile: string
  readonly adminToken: string
  /** A namespace that no other suite uses. */
  readonly namespace: string
  /** Returns the token of a user in the token file. Only the admin has any rights. */
  tokenOf(user: TokenUser): string
  /** Returns a certificate that authenticates this user. */
  clientCertificate(user: string, groups?: readonly string[]): { readonly cert: string; readonly key: string }
  readonly admin: {
    /** Sends a request to the API server. Default: as the admin. A PATCH is a merge patch. */
    request<Body = unknown>(method: string, path: string, body?: unknown, token?: string): Promise<JsonResponse<Body>>
  }
}

/** The parts of Kubernetes that an election needs: an API server with its etcd. Signals go to the API server. */
export interface Cluster extends RunningServer, ApiServer {
  readonly etcd: RunningServer
}

/** Options of a cluster. */
export interface ClusterOptions {
  /** Additional flags of kube-apiserver. */
  readonly flags?: readonly string[]
}

/** Starts etcd and an API server on it. Throws if one of the programs is missing. */
export async function startCluster({ flags }: ClusterOptions = {}): Promise<Cluster> {
  const database = await start(etcd)
  try {
    const server = await start(kubeApiserver(database.url, flags))
    return describeCluster(database, server)
  } catch (error) {
    await database.stop()
    throw error
  }
}

function describeCluster(database: RunningServer, server: RunningServer): Cluster {
  return {
    ...server,
    ...apiServerAt(server, 'default'),
    get pid() {
      return server.pid
    },
    etcd: database,
    async stop() {
      await Promise.all([server.stop(), database.stop()])
    },
  }
}

/** Returns a handle to a running API server, which other tests may share. */
export function apiServerAt(
  { directory, url, port }: Pick<ApiServer, 'directory' | 'url' | 'port'>,
  namespace: string,
) {
  const caFile = join(directory, files.serverCa)
  const ca = readFileSync(caFile, 'utf8')
  const adminToken = tokenOf('admin')
  return {
    url,
    port,
    directory,
    ca,
    caFile,
    adminToken,
    namespace,
    tokenOf,
    clientCertificate: (user, groups = []) => signClientCertificate(directory, user, groups),
    admin: {
      request: (method, path, body, token = adminToken) => requestJson({ url, ca, method, path, body, token }),
    },
  } satisfies ApiServer as ApiServer
}
