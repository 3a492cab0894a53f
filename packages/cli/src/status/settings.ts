import { json, serviceSettings } from '../shared/arguments/store-settings.ts'

export const statusSettings = { ...serviceSettings, json }
