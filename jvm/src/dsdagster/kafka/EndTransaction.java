package dsdagster.kafka;

import java.util.Collection;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.internals.AdminApiFuture;
import org.apache.kafka.clients.admin.internals.AdminApiHandler;
import org.apache.kafka.clients.admin.internals.AdminApiLookupStrategy;
import org.apache.kafka.clients.admin.internals.CoordinatorKey;
import org.apache.kafka.clients.admin.internals.CoordinatorStrategy;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.message.EndTxnRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.EndTxnRequest;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest.CoordinatorType;
import org.apache.kafka.common.utils.LogContext;

/**
 * Commits a prepared transaction at its coordinator, in the name of its producer. The coordinator answers a repeated
 * commit like the first one; a transaction that is not the producer's any more fails.
 *
 * <p>Rule: one handler for each transaction, since the admin client waits between two requests of one handler.
 */
final class EndTransaction implements AdminApiHandler<CoordinatorKey, String> {
  private final Prepared prepared;
  private final AdminApiLookupStrategy<CoordinatorKey> lookup =
      new CoordinatorStrategy(CoordinatorType.TRANSACTION, new LogContext());

  private EndTransaction(Prepared prepared) {
    this.prepared = prepared;
  }

  /** Sends the request; the answer is an empty text. */
  static KafkaFuture<String> send(Admin admin, String transactionalId, Prepared prepared) {
    CoordinatorKey key = CoordinatorKey.byTransactionalId(transactionalId);
    AdminApiFuture.SimpleAdminApiFuture<CoordinatorKey, String> answer = AdminApiFuture.forKeys(Set.of(key));
    KafkaInternals.send(admin, new EndTransaction(prepared), answer);
    return answer.get(key);
  }

  @Override
  public String apiName() {
    return "endTransaction";
  }

  @Override
  public AdminApiLookupStrategy<CoordinatorKey> lookupStrategy() {
    return lookup;
  }

  @Override
  public Collection<RequestAndKeys<CoordinatorKey>> buildRequest(int broker, Set<CoordinatorKey> keys) {
    CoordinatorKey key = keys.iterator().next();
    EndTxnRequestData data =
        new EndTxnRequestData()
            .setTransactionalId(key.idValue)
            .setProducerId(prepared.producerId())
            .setProducerEpoch(prepared.producerEpoch())
            .setCommitted(true);
    return List.of(new RequestAndKeys<>(new EndTxnRequest.Builder(data), keys));
  }

  @Override
  public ApiResult<CoordinatorKey, String> handleResponse(
      Node broker, Set<CoordinatorKey> keys, AbstractResponse response) {
    CoordinatorKey key = keys.iterator().next();
    Errors error = ((EndTxnResponse) response).error();
    return switch (error) {
      case NONE -> ApiResult.completed(key, "");
      case COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS -> ApiResult.empty();
      case NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE -> ApiResult.unmapped(List.of(key));
      default -> ApiResult.failed(key, error.exception());
    };
  }
}
