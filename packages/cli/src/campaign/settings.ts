import { parseDuration } from '../shared/arguments/durations.ts'
import { setting } from '../shared/arguments/settings.ts'
import { hostIdentity, json, metadata, serviceSettings, ttl } from '../shared/arguments/store-settings.ts'

export const campaignSettings = {
  ...serviceSettings,
  identity: hostIdentity,
  ttl,
  wait: setting(
    { placeholder: 'duration', help: 'how long to wait in the campaign queue while another node leads' },
    parseDuration,
  ),
  metadata,
  json,
}
