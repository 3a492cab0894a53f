import type { FamilyDeclaration } from '../shared/arguments/declare.ts'
import { keySettings, revokeSettings, showSettings, signSettings } from './settings.ts'

const fileCodes = '0 on success, 1 if a file already exists or others can read the key, 2 for invalid usage'

/** `tenure token`: creates identities for machines, without a separate token issuer. */
export const tokenCommands: FamilyDeclaration = {
  name: 'token',
  summary: 'Create a signing key, sign tokens for "tenure serve --token-key", and revoke them.',
  members: [
    {
      name: 'key',
      summary: 'Create a key that signs tokens.',
      settings: keySettings,
      examples: ['tenure token key --out tenure.key'],
      notes: [
        'It writes two files. tenure.key signs tokens: keep it where only you can read it.',
        'tenure.key.pub verifies them: give it to every replica as --token-key. It is not secret.',
        'To replace a key, keep both public keys in one file until all tokens are replaced.',
      ],
      exitCodes: fileCodes,
      run: async (flags) => (await import('./key.ts')).makeKey(flags),
    },
    {
      name: 'sign',
      summary: 'Sign a token for a machine, a reader or an administrator.',
      settings: signSettings,
      examples: [
        'tenure token sign --key tenure.key --node machine-2 --groups my-job --out machine-2.token',
        "tenure token sign --key tenure.key --node web --groups 'payments,reports-*' --lifetime 90d --out web.token",
        'tenure token sign --key tenure.key --node prometheus --reader --out prometheus.token',
        'tenure token sign --key tenure.key --node me --admin --lifetime 12h --out admin.token',
      ],
      notes: [
        'The file has mode 600. Copy it to its machine, for example with scp, and name it there with --token-file.',
        'It prints the id of the token, which "tenure token revoke" needs.',
      ],
      exitCodes: fileCodes,
      run: async (flags) => (await import('./sign.ts')).sign(flags),
    },
    {
      name: 'show',
      argument: '<file>',
      summary: 'Show the node of a token, what it grants, and its id.',
      settings: showSettings,
      examples: ['tenure token show machine-2.token'],
      notes: ['It prints no secret, and does not verify the token.'],
      exitCodes: '0 on success, 2 if the file contains no token, 69 if it cannot be read',
      run: async (flags, file) => (await import('./show.ts')).show(file, flags),
    },
    {
      name: 'revoke',
      argument: '<id>',
      summary: 'Revoke a token at a service, by its id.',
      settings: revokeSettings,
      examples: [
        'tenure token revoke 9b1c0c5e-6f5b-4a50-9d0c-0a4f6f0f2b7e --url https://one.example:7070 \\',
        '  --ca-file service.pem --token-file admin.token',
      ],
      notes: [
        'It needs the token of an administrator. When it returns, every replica rejects the revoked token.',
        'Open streams of the token end at once. Its leases expire, because it can no longer renew them.',
      ],
      exitCodes: '0 on success, 2 for invalid usage, 69 if the service is unavailable or refuses',
      run: async (flags, id) => (await import('./revoke.ts')).revoke(id, flags),
    },
  ],
}
