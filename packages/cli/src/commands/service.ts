/** The commands that only a service can answer. Each prints the answer as the HTTP API gives it, or a table of it. */
import { Command } from 'commander'
import { describe } from '../describe.ts'
import { parseDuration } from '../durations.ts'
import { addFlags, setting } from '../settings.ts'
import { identity, json, metadata, serviceSettings, ttl } from '../store-settings.ts'
import { termOf } from '../values.ts'

const own = { ...identity, help: 'who this is to the others', shownDefault: 'the name of this host' }

export const campaignSettings = {
  ...serviceSettings,
  identity: own,
  ttl,
  wait: setting({ placeholder: 'duration', help: 'wait in line for so long, if somebody else leads' }, parseDuration),
  metadata,
  json,
}

export const resignSettings = {
  ...serviceSettings,
  identity: own,
  term: setting(
    {
      placeholder: 'number',
      help: 'the term to end; by flag only',
      shownDefault: 'the one that runs',
      withoutVariable: true,
    },
    termOf,
  ),
  json,
}

export const listSettings = { ...serviceSettings, json }

const yesOrNo = (yes: string, no: string) =>
  `0 if ${yes}, 1 if ${no}, 2 for a wrong command, 69 if the service cannot be asked`

/** `tenure campaign`: tries to lead, once. */
export function campaignCommand(): Command {
  const command = new Command('campaign')
    .argument('<group>')
    .description('Try to lead a group of a service, once. Nobody renews the lease: see tenure run.')
  addFlags(command, campaignSettings)
  return describe(command, {
    examples: [
      'tenure campaign deploy --url https://elections.example.com --ttl 10m && ./deploy.sh',
      'tenure campaign deploy --url http://127.0.0.1:7070 --identity node-17 --wait 1m --json',
    ],
    exitCodes: yesOrNo('it leads', 'somebody else does'),
  }).action(async (group: string, flags: Record<string, unknown>) => {
    const { campaign } = await import('../ask/service.ts')
    await campaign(group, flags)
  })
}

/** `tenure resign`: gives the lease back. */
export function resignCommand(): Command {
  const command = new Command('resign').argument('<group>').description('Give the lease of a group back.')
  addFlags(command, resignSettings)
  return describe(command, {
    examples: [
      'tenure resign deploy --url https://elections.example.com',
      'tenure resign deploy --url http://127.0.0.1:7070 --identity node-17 --term 42',
    ],
    exitCodes: yesOrNo('it was given back, now or before', 'it did not lead'),
  }).action(async (group: string, flags: Record<string, unknown>) => {
    const { resign } = await import('../ask/service.ts')
    await resign(group, flags)
  })
}

/** `tenure members`: who takes part. */
export function membersCommand(): Command {
  const command = new Command('members').argument('<group>').description('List who takes part in a group.')
  addFlags(command, listSettings)
  return describe(command, {
    examples: ['tenure members deploy --url https://elections.example.com'],
    exitCodes: yesOrNo('there is the group', 'there is no such group'),
  }).action(async (group: string, flags: Record<string, unknown>) => {
    const { members } = await import('../ask/service.ts')
    await members(group, flags)
  })
}

/** `tenure groups`: what a service keeps. */
export function groupsCommand(): Command {
  const command = new Command('groups').description('List the groups of a service, and who leads each.')
  addFlags(command, listSettings)
  return describe(command, {
    examples: ['tenure groups --url https://elections.example.com --json | jq -r .group_id'],
    exitCodes: '0, 2 for a wrong command, 69 if the service cannot be asked',
  }).action(async (flags: Record<string, unknown>) => {
    const { groups } = await import('../ask/service.ts')
    await groups(flags)
  })
}
