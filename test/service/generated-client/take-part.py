"""Takes part in an election of the service at the given URL, through the client generated into the given folder."""

import importlib
import json
import pkgutil
import sys

folder, url = sys.argv[1:]
sys.path.insert(0, folder)

import tenure_client
from tenure_client import Client, models
from tenure_client.api.election import campaign, get_leader, renew, resign
from tenure_client.api.watch import watch

# Every generated module can be imported, even if it is not used here.
modules = [module.name for module in pkgutil.walk_packages(tenure_client.__path__, "tenure_client.")]
for name in modules:
    importlib.import_module(name)

client = Client(base_url=url, raise_on_unexpected_status=True)
group = "generated"
zone = models.CampaignBodyMetadata.from_dict({"zone": "az-a"})
won = campaign.sync(group, client=client, body=models.CampaignBody(node_id="a", lease_ttl_ms=20_000, metadata=zone))
lost = campaign.sync(group, client=client, body=models.CampaignBody(node_id="b", lease_ttl_ms=20_000))
term = won.leader.term
first = watch.sync(group, client=client)
renewed = renew.sync(group, client=client, body=models.RenewBody(node_id="a", term=term, extend_by_ms=30_000))
refused = renew.sync(group, client=client, body=models.RenewBody(node_id="b", term=term, extend_by_ms=30_000))
resigned = resign.sync(group, client=client, body=models.ResignBody(node_id="a", term=term))
# A change has followed the end of the first answer.
after = watch.sync(group, client=client, cursor=first.cursor, wait_ms="5000")
leader = get_leader.sync(group, client=client)

print(
    json.dumps(
        {
            "modules": len(modules),
            "won": [won.is_leader, won.leader.node_id, won.leader.metadata.to_dict()],
            "lost": [lost.is_leader, lost.leader.node_id],
            "first": [str(event.type_) for event in first.events],
            "renewed": [type(renewed).__name__, renewed.leader.lease_ttl_ms],
            "refused": [type(refused).__name__, str(refused.error), refused.current_leader.node_id],
            "resigned": type(resigned).__name__,
            "after": [[str(event.type_), str(event.reason)] for event in after.events],
            "leader": leader.leader,
        }
    )
)
