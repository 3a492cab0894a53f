import { askEtcd, base64, type EtcdAt } from './etcd.ts'

/** Users of an etcd with authentication: one with access to a prefix, and a root. */
export interface EtcdUsers {
  /** Logs in as root. */
  asRoot(): Promise<EtcdAt & { readonly token: string }>
  setPassword(password: string): Promise<void>
}

/** Creates a user `tenure` with this password and access to the keys under `tenure/`. */
export async function createUsers(server: { readonly url: string }, password: string): Promise<EtcdUsers> {
  const allKeys = { permType: 'READWRITE', key: base64('tenure/'), range_end: base64('tenure0') }
  for (const [path, body] of [
    ['auth/role/add', { name: 'tenure' }],
    ['auth/role/grant', { name: 'tenure', perm: allKeys }],
    ['auth/user/add', { name: 'tenure', password }],
    ['auth/user/grant', { user: 'tenure', role: 'tenure' }],
    ['auth/user/add', { name: 'root', password: 'root' }],
    ['auth/user/grant', { user: 'root', role: 'root' }],
    ['auth/enable', {}],
  ] as const) {
    await askEtcd(server, path, body)
  }
  const asRoot = async () => {
    const login = { name: 'root', password: 'root' }
    const { token } = await askEtcd<{ token: string }>(server, 'auth/authenticate', login)
    return { url: server.url, token }
  }
  return {
    asRoot,
    async setPassword(next) {
      await askEtcd(await asRoot(), 'auth/user/changepw', { name: 'tenure', password: next })
    },
  }
}
