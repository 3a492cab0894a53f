import { json, storeSettings } from '../shared/arguments/store-settings.ts'

export const leaderSettings = { ...storeSettings, json }
