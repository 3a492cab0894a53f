import type { ApiServer } from '../servers/cluster.ts'

/**
 * Returns a kubeconfig that reaches the API server through a port of this machine, as the admin unless a token is
 * given.
 */
export function kubeConfigOf(
  { caFile, adminToken, port: ownPort }: Pick<ApiServer, 'caFile' | 'adminToken' | 'port'>,
  {
    port = ownPort,
    token = adminToken,
  }: { readonly port?: number | undefined; readonly token?: string | undefined } = {},
): string {
  // JSON is valid YAML.
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    clusters: [{ name: 'test', cluster: { server: `https://127.0.0.1:${port}`, 'certificate-authority': caFile } }],
    users: [{ name: 'test', user: { token } }],
  })
}
