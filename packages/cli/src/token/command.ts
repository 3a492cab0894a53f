import type { FamilyDeclaration } from '../shared/arguments/declare.ts'
import { keySettings, revokeSettings, showSettings, signSettings } from './settings.ts'

const fileCodes = '0, 1 if a file exists already or others can read the key, 2 for a wrong command'

/** `tenure token`: identities for machines, without an issuer of tokens beside the service. */
export const tokenCommands: FamilyDeclaration = {
  name: 'token',
  summary: 'Make a key, sign tokens with it for "tenure serve --token-key", and revoke them.',
  members: [
    {
      name: 'key',
      summary: 'Make a key that signs tokens.',
      settings: keySettings,
      examples: ['tenure token key --out tenure.key'],
      notes: [
        'It writes two files. tenure.key signs tokens: keep it where only you can read it.',
        'tenure.key.pub checks them: give it to every replica, as --token-key. It is no secret.',
        'To replace a key, put both public ones into one file until all tokens are replaced.',
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
        'The file has mode 600. Bring it to its machine by scp, and name it there with --token-file.',
        'By the id that is printed the token can be revoked.',
      ],
      exitCodes: fileCodes,
      run: async (flags) => (await import('./sign.ts')).sign(flags),
    },
    {
      name: 'show',
      argument: '<file>',
      summary: 'Show whom a token is for, what it grants, and its id.',
      settings: showSettings,
      examples: ['tenure token show machine-2.token'],
      notes: ['It shows nothing by which the token could be used, and does not check it.'],
      exitCodes: '0, 2 if there is no token in the file, 69 if it cannot be read',
      run: async (flags, file) => (await import('./show.ts')).show(file, flags),
    },
    {
      name: 'revoke',
      argument: '<id>',
      summary: 'Let a service refuse a token from now on, by its id.',
      settings: revokeSettings,
      examples: [
        'tenure token revoke 9b1c0c5e-6f5b-4a50-9d0c-0a4f6f0f2b7e --url https://one.example:7070 \\',
        '  --ca-file service.pem --token-file admin.token',
      ],
      notes: [
        'It needs the token of an administrator. When it ends, no replica takes the revoked token any more.',
        'Streams of its bearer end at once; leases that it holds run out, since it cannot renew them.',
      ],
      exitCodes: '0, 2 for a wrong command, 69 if the service cannot be asked or refuses',
      run: async (flags, id) => (await import('./revoke.ts')).revoke(id, flags),
    },
  ],
}
