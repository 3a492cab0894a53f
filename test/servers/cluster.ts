import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { etcd } from './etcd.ts'
import type { Program } from './find.ts'
import { requestJson, type JsonResponse } from './https-json.ts'
import { files, kubeApiserver, signClientCertificate, tokenOf, type TokenUser } from './kube-apiserver.ts'
import { programs } from './programs.ts'
import { start, type RunningServer } from './server.ts'

/** Everything a cluster is made of. */
export const clusterPrograms: readonly Program[] = [programs.etcd, programs.kubeApiserver, programs.openssl]

/** An API server as those see it who must not harm it. */
export interface ApiServer {
  readonly url: string
  readonly port: number
  readonly directory: string
  /** What the API server's certificate is verified with, in PEM. */
  readonly ca: string
  readonly caFile: string
  readonly adminToken: string
  /** A namespace that no other suite uses. */
  readonly namespace: string
  /** The token of a user of the token file. None but the admin has any right. */
  tokenOf(user: TokenUser): string
  /** A certificate that logs this user in. */
  clientCertificate(user: string, groups?: readonly string[]): { readonly cert: string; readonly key: string }
  readonly admin: {
    /** Asks the API server, as the admin unless there is a token. A PATCH is a merge patch. */
    request<Body = unknown>(method: string, path: string, body?: unknown, token?: string): Promise<JsonResponse<Body>>
  }
}

/** Kubernetes as far as an election needs it: an API server with its etcd. Signals go to the API server. */
export interface Cluster extends RunningServer, ApiServer {
  readonly etcd: RunningServer
}

/** Options of a cluster. */
export interface ClusterOptions {
  /** More flags of kube-apiserver. */
  readonly flags?: readonly string[]
}

/** Starts etcd and an API server on it. Throws where one of the programs is missing. */
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

/** The API server that runs there, perhaps for others too. */
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
